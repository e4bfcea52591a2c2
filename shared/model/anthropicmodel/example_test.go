package anthropicmodel_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/anthropicmodel"
	"github.com/errand-dev/errand/shared/model/modeltest"
)

func Example() {
	// A server stands in for Anthropic here. Without BaseURL and APIKey the call goes to
	// Anthropic, with the key in ANTHROPIC_API_KEY.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, modeltest.Request{}, modeltest.Answer{Text: []string{"The capital ", "is Paris."}, Stop: model.StopEnd})
	}))
	defer server.Close()

	m, err := anthropicmodel.New(anthropicmodel.Options{BaseURL: server.URL, APIKey: "sk-example", Model: "claude-haiku-4-5"})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := m.Generate(context.Background(), "key", model.Request{
		Messages: []model.Message{{Role: model.User, Text: "What is the capital of France?"}},
	}, nil)
	fmt.Println(res.Text, res.Stop, err)
	// Output: The capital is Paris. end <nil>
}
