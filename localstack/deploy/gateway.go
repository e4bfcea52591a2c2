package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// gateway stands in for the HTTP API and its JWT authorizer: it asks for a token of the issuer
// and invokes ingress with the event that the API would make (payload 2.0).
type gateway struct {
	target
	function string
	issuer   *issuer
}

// callbacks is where the API asks for no token.
const callbacks = "/v1/callbacks/"

// maxBody is the most that an HTTP API takes.
const maxBody = 10 << 20

func (g gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var authorizer *events.APIGatewayV2HTTPRequestContextAuthorizerDescription
	if !strings.HasPrefix(r.URL.Path, callbacks) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		claims, err := g.issuer.verify(token, time.Now())
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"message":"Unauthorized"}`)
			return
		}
		authorizer = &events.APIGatewayV2HTTPRequestContextAuthorizerDescription{
			JWT: &events.APIGatewayV2HTTPRequestContextAuthorizerJWTDescription{Claims: claims},
		}
	}
	answer, err := g.invoke(r, authorizer)
	if err != nil {
		http.Error(w, `{"message":"Internal Server Error"}`, http.StatusInternalServerError)
		return
	}
	for name, value := range answer.Headers {
		w.Header().Set(name, value)
	}
	body := []byte(answer.Body)
	if answer.IsBase64Encoded {
		body, _ = base64.StdEncoding.DecodeString(answer.Body)
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(body)
}

func (g gateway) invoke(r *http.Request, authorizer *events.APIGatewayV2HTTPRequestContextAuthorizerDescription) (answer events.APIGatewayV2HTTPResponse, err error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return answer, err
	}
	event := events.APIGatewayV2HTTPRequest{Version: "2.0", RouteKey: "ANY /{proxy+}", RawPath: r.URL.EscapedPath(), RawQueryString: r.URL.RawQuery, Headers: map[string]string{}, Body: string(body)}
	for name, values := range r.Header {
		event.Headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	event.RequestContext.HTTP.Method, event.RequestContext.HTTP.Path = r.Method, r.URL.Path
	event.RequestContext.Stage, event.RequestContext.DomainName = "$default", r.Host
	event.RequestContext.Authorizer = authorizer
	payload, err := json.Marshal(event)
	if err != nil {
		return answer, err
	}
	data, err := g.lambda(r.Context(), http.MethodPost, "/2015-03-31/functions/"+g.function+"/invocations", payload)
	if err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(data, &answer)
}

// lambda calls Lambda's API on the endpoint.
func (t target) lambda(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, t.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(body)
	key := aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}
	if err := v4.NewSigner().SignHTTP(ctx, key, request, hex.EncodeToString(hash[:]), "lambda", "us-east-1", time.Now()); err != nil {
		return nil, fmt.Errorf("signing a call of Lambda: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("calling Lambda: %w", err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading Lambda's answer: %w", err)
	}
	if response.StatusCode >= http.StatusMultipleChoices || response.Header.Get("X-Amz-Function-Error") != "" {
		return nil, fmt.Errorf("calling Lambda: %s: %.100s", response.Status, data)
	}
	return data, nil
}
