package openaimodel

import (
	"context"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

const (
	// askedModel remembers with a stored answer by which name its model was asked.
	askedModel = "errand_model"
	// askedKey makes a call that was submitted twice findable in OpenAI's dashboard.
	askedKey = "errand_key"
)

// Submit implements model.Background. OpenAI stores the answer for 30 days; it would
// forget an unstored one after ten minutes, and a run may sleep longer than that. The key is
// kept with it but makes nothing idempotent: submitted twice is billed twice.
func (m *Model) Submit(ctx context.Context, key string, req model.Request) (string, error) {
	params, err := m.params(req)
	if err != nil {
		return "", err
	}
	params.Background, params.Store = openai.Bool(true), openai.Bool(true)
	params.Metadata = shared.Metadata{askedModel: params.Model, askedKey: clip(key)}
	call, cancel := adapt.Bound(ctx, m.options.Timeout)
	defer cancel()
	res, err := m.responses.New(call, params, idempotent(key))
	if err != nil {
		return "", adapt.Failed(ctx, err, complaint)
	}
	if res.ID == "" {
		return "", adapt.Invalid("the server gave no id for a call in the background")
	}
	return res.ID, nil
}

// clip shortens a key to what metadata may hold, in bytes.
func clip(key string) string { return key[:min(len(key), 512)] }

// Fetch implements model.Background. A call that failed at OpenAI is done and gives its
// error, whose kind says whether it is worth submitting again; done stays false with an
// error of the fetching itself.
func (m *Model) Fetch(ctx context.Context, id string) (model.Response, bool, error) {
	res, err := m.get(ctx, id)
	if err != nil {
		return model.Response{}, false, adapt.Failed(ctx, err, complaint)
	}
	if !ended(res) {
		return model.Response{}, false, nil
	}
	name := res.Metadata[askedModel]
	if name == "" {
		name = res.Model
	}
	whole, err := answer(name, res)
	if err == nil {
		return whole, true, nil
	}
	if whole, ok := declined(name, err); ok {
		return whole, true, nil
	}
	return model.Response{}, true, adapt.Failed(ctx, err, complaint)
}

// Abandon implements model.Background.
func (m *Model) Abandon(ctx context.Context, id string) error {
	call, cancel := adapt.Bound(ctx, m.options.Timeout)
	defer cancel()
	_, err := m.responses.Cancel(call, id)
	if err == nil {
		return nil
	}
	err = adapt.Failed(ctx, err, complaint)
	// OpenAI refuses to cancel what has ended.
	if failed, ok := errors.AsType[*model.Error](err); ok && (failed.Kind == model.Invalid || failed.Kind == model.Overloaded) {
		if res, got := m.get(ctx, id); got == nil && ended(res) {
			return nil
		}
	}
	return err
}

func (m *Model) get(ctx context.Context, id string) (*responses.Response, error) {
	call, cancel := adapt.Bound(ctx, m.options.Timeout)
	defer cancel()
	return m.responses.Get(call, id, responses.ResponseGetParams{})
}

func ended(res *responses.Response) bool {
	return res.Status != responses.ResponseStatusQueued && res.Status != responses.ResponseStatusInProgress
}
