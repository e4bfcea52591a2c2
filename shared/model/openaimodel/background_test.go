package openaimodel_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/modeltest"
	"github.com/errand-dev/errand/shared/model/openaimodel"
)

var _ model.Background = (*openaimodel.Model)(nil)

// background plays the routes of background mode for one stored response.
type background struct {
	status string
	answer modeltest.Answer
	extra  j
}

func (b *background) serve(w http.ResponseWriter, r modeltest.Request) {
	body := whole(b.answer)
	body["status"] = b.status
	for name, value := range b.extra {
		body[name] = value
	}
	switch r.Path {
	case "POST /v1/responses", "GET /v1/responses/resp_1":
	case "POST /v1/responses/resp_1/cancel":
		if b.status != "queued" && b.status != "in_progress" {
			modeltest.SendJSON(w, http.StatusBadRequest, j{"error": j{"type": "invalid_request_error", "message": "Cannot cancel a completed response."}})
			return
		}
		b.status = "cancelled"
	default:
		modeltest.SendJSON(w, http.StatusNotFound, j{"error": j{"type": "invalid_request_error", "message": "Response with id 'resp_x' not found."}})
		return
	}
	modeltest.SendJSON(w, http.StatusOK, body)
}

func backgrounded(t *testing.T) (*openaimodel.Model, *background, *modeltest.Server) {
	b := &background{status: "queued", answer: modeltest.Answer{Text: []string{"Paris."}, Stop: model.StopEnd, Model: "gpt-5.2-2025-12-11", Usage: model.Usage{Input: 3, Output: 2}}}
	server := modeltest.Serve(t, b.serve)
	return responses(t, openaimodel.Options{APIKey: "sk-test", BaseURL: server.URL + "/v1", Model: "gpt-5.2"}), b, server
}

func TestACallInTheBackgroundIsSubmittedAndFetched(t *testing.T) {
	m, b, server := backgrounded(t)
	id, err := m.Submit(t.Context(), "key-1", ask("Capital of France?"))
	if err != nil || id != "resp_1" {
		t.Fatalf("got %q, %v", id, err)
	}
	sent := newest(t, server)
	if sent["background"] != true || sent["store"] != true || server.Asked()[0].Header.Get("Idempotency-Key") != "key-1" {
		t.Errorf("sent %v", sent)
	}
	if diff := cmp.Diff(any(j{"errand_model": "gpt-5.2", "errand_key": "key-1"}), sent["metadata"]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, status := range []string{"queued", "in_progress"} {
		b.status = status
		if res, done, err := m.Fetch(t.Context(), id); done || err != nil || res.Text != "" {
			t.Errorf("%s: got %+v, %t, %v", status, res, done, err)
		}
	}
	b.status = "completed"
	for range 2 {
		res, done, err := m.Fetch(t.Context(), id)
		want := model.Response{Text: "Paris.", Stop: model.StopEnd, Model: "gpt-5.2-2025-12-11", Usage: model.Usage{Input: 3, Output: 2}}
		if diff := cmp.Diff(want, res); diff != "" || !done || err != nil {
			t.Errorf("got %t, %v (-want +got)\n%s", done, err, diff)
		}
	}
}

func TestReasoningOfACallInTheBackgroundBelongsToTheModelThatWasAsked(t *testing.T) {
	m, b, server := backgrounded(t)
	b.status = "completed"
	b.extra = j{"metadata": j{"errand_model": "gpt-5.2"}, "output": []any{
		j{"type": "reasoning", "id": "rs_1", "summary": []any{}, "encrypted_content": "gAAA"},
		j{"type": "function_call", "call_id": "c1", "name": "lookup", "arguments": "{}"},
	}}
	res, _, err := m.Fetch(t.Context(), "resp_1")
	if err != nil {
		t.Fatal(err)
	}
	req := ask("?")
	req.Messages = append(req.Messages, model.Message{Role: model.Assistant, Calls: res.Calls, Opaque: res.Opaque},
		model.Message{Role: model.User, Results: []model.Result{{CallID: "c1", Text: "Paris"}}})
	if _, err := m.Submit(t.Context(), "k", req); err != nil {
		t.Fatal(err)
	}
	if item := newest(t, server)["input"].([]any)[1].(j); item["encrypted_content"] != "gAAA" {
		t.Errorf("sent %v", item)
	}
}

func TestHowACallInTheBackgroundEndsIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		extra  j
		kind   model.Kind
		stop   model.Stop
	}{
		"failed":    {"failed", j{"error": j{"code": "server_error", "message": "sorry"}}, model.Overloaded, ""},
		"flagged":   {"failed", j{"error": j{"code": "invalid_prompt", "message": "sorry"}}, "", model.StopRefusal},
		"cancelled": {"cancelled", nil, model.Invalid, ""},
		"cut":       {"incomplete", j{"incomplete_details": j{"reason": "max_output_tokens"}}, "", model.StopMaxTokens},
		"filtered":  {"incomplete", j{"incomplete_details": j{"reason": "content_filter"}}, "", model.StopRefusal},
	} {
		t.Run(name, func(t *testing.T) {
			m, b, _ := backgrounded(t)
			b.status, b.extra = c.status, c.extra
			res, done, err := m.Fetch(t.Context(), "resp_1")
			failed, _ := errors.AsType[*model.Error](err)
			if !done || (c.kind == "") != (failed == nil) || failed != nil && failed.Kind != c.kind || res.Stop != c.stop {
				t.Errorf("got %+v, %t, %v", res, done, err)
			}
		})
	}
}

func TestAFetchThatFailsIsNotTheEndOfTheCall(t *testing.T) {
	m, _, _ := backgrounded(t)
	_, done, err := m.Fetch(t.Context(), "resp_x")
	if failed, ok := errors.AsType[*model.Error](err); done || !ok || failed.Kind != model.NotFound {
		t.Errorf("got %t, %v", done, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, done, err = m.Fetch(ctx, "resp_1")
	if failed, ok := errors.AsType[*model.Error](err); done || !ok || failed.Kind != model.Ended {
		t.Errorf("got %t, %v", done, err)
	}
}

func TestAbandonStopsACallAndLeavesAnEndedOneAlone(t *testing.T) {
	m, b, _ := backgrounded(t)
	for range 2 {
		if err := m.Abandon(t.Context(), "resp_1"); err != nil || b.status != "cancelled" {
			t.Errorf("got %v, and it is %s", err, b.status)
		}
	}
	b.status = "completed"
	if err := m.Abandon(t.Context(), "resp_1"); err != nil || b.status != "completed" {
		t.Errorf("got %v, and it is %s", err, b.status)
	}
	if err := m.Abandon(t.Context(), "resp_x"); err == nil {
		t.Error("a call that does not exist was abandoned")
	}
}
