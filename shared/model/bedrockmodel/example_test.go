package bedrockmodel_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/bedrockmodel"
	"github.com/errand-dev/errand/shared/model/modeltest"
)

func Example() {
	// A server stands in for Bedrock here. A program makes its client of its configuration:
	//
	//	c, err := config.LoadDefaultConfig(ctx)
	//	client := bedrockruntime.NewFromConfig(c)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(w, modeltest.Request{Path: r.URL.Path}, modeltest.Answer{Text: []string{"The capital ", "is Paris."}, Stop: model.StopEnd})
	}))
	defer server.Close()

	m, err := bedrockmodel.New(bedrockmodel.Options{Client: client(server.URL), Model: "eu.amazon.nova-lite-v1:0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = m.Generate(context.Background(), "key", ask("What is the capital of France?"), func(text string) { fmt.Printf("%q ", text) })
	fmt.Println(err)
	// Output: "The capital " "is Paris." <nil>
}
