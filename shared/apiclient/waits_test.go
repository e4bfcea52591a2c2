package apiclient_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/apiclient"
)

func TestTheClientAnswersWhoWaits(t *testing.T) {
	s, ctx := open(t, true), t.Context()
	yes := true
	must[api.Run](t)(s.Dispatch(ctx, "c", api.DispatchRequest{Agent: "lab-approve", RunID: "a"}, ""))
	s.follow(t, apiclient.EventQuery{Conversation: "c", Run: "a"}, "approval.requested")
	if err := s.DecideRun(ctx, "c", "a", "go-on", api.DecisionRequest{Approved: &yes, Note: "fine"}); err != nil {
		t.Error(err)
	}
	s.follow(t, apiclient.EventQuery{Conversation: "c", Run: "a"}, "run.ended")
	var p *api.Problem
	if err := s.DecideTurn(ctx, "c", "a", "go-on", api.DecisionRequest{Approved: &yes}); !errors.As(err, &p) || p.Code() != "not-found" {
		t.Errorf("a run's question was a turn's: %v", err)
	}
	must[api.Run](t)(s.Dispatch(ctx, "c", api.DispatchRequest{Agent: "lab-callback", RunID: "b"}, ""))
	var told struct{ Data struct{ Path string } }
	if err := json.Unmarshal(s.follow(t, apiclient.EventQuery{Conversation: "c", Run: "b"}, "run.milestone").Data, &told); err != nil {
		t.Fatal(err)
	}
	token := strings.TrimPrefix(told.Data.Path, "/v1/callbacks/")
	half := 0.5
	if err := s.Report(ctx, token, api.ReportRequest{Fraction: &half}); err != nil {
		t.Error(err)
	}
	if err := s.Callback(ctx, token, api.CallbackRequest{Output: json.RawMessage(`{"rows":3}`)}); err != nil {
		t.Error(err)
	}
	s.follow(t, apiclient.EventQuery{Conversation: "c", Run: "b"}, "run.ended")
	if run := must[api.Run](t)(s.Run(ctx, "c", "b")); string(run.Output) != `{"rows":3}` || *run.Progress.Fraction != half {
		t.Errorf("the run is %+v", run)
	}
	if err := s.Callback(ctx, token, api.CallbackRequest{Output: json.RawMessage(`4`)}); !errors.As(err, &p) || p.Code() != "already-ended" {
		t.Errorf("a late callback: %v", err)
	}
}

func TestNoErrorShowsTheTokenOfACallback(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/progress") {
			w.WriteHeader(http.StatusBadGateway)
		}
		_, _ = w.Write([]byte("<html>"))
	}))
	defer server.Close()
	c, err := apiclient.New(server.URL, "", server.Client())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, err := range []error{c.Callback(t.Context(), "a-secret", api.CallbackRequest{}), c.Report(t.Context(), "a-secret", api.ReportRequest{})} {
			if err != nil && strings.Contains(err.Error(), "a-secret") {
				t.Errorf("it is shown: %v", err)
			}
		}
		server.Close()
	}
}
