package openaimodel_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/modeltest"
	"github.com/errand-dev/errand/shared/model/openaimodel"
)

func ExampleNew() {
	// A server stands in for OpenAI here. Without BaseURL and APIKey the call goes to OpenAI,
	// with the key in OPENAI_API_KEY.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, modeltest.Request{}, modeltest.Answer{Text: []string{"The capital is Paris."}, Stop: model.StopEnd})
	}))
	defer server.Close()

	m, err := openaimodel.New(openaimodel.Options{BaseURL: server.URL, APIKey: "sk-example", Model: "gpt-5-mini"})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := m.Generate(context.Background(), "key", ask("What is the capital of France?"), nil)
	fmt.Println(res.Text, res.Stop, err)
	// Output: The capital is Paris. end <nil>
}

func ExampleNewChat() {
	// A server stands in for Ollama here, whose address is http://localhost:11434/v1.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chatAnswer(w, modeltest.Request{Body: []byte(`{"stream":true}`)}, modeltest.Answer{Text: []string{"The capital ", "is Paris."}, Stop: model.StopEnd})
	}))
	defer server.Close()

	m, err := openaimodel.NewChat(openaimodel.Options{BaseURL: server.URL + "/v1", Model: "llama3.2"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = m.Generate(context.Background(), "key", ask("What is the capital of France?"), func(text string) { fmt.Printf("%q ", text) })
	fmt.Println(err)
	// Output: "The capital " "is Paris." <nil>
}
