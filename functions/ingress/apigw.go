package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// adapter turns an event of an HTTP API (payload 2.0) into a request for handler, and
// its answer into the event's.
type adapter struct{ handler http.Handler }

// event is the API's event; its authorizer is decoded leniently (identity.go).
type event struct {
	events.APIGatewayV2HTTPRequest
	RequestContext requestContext `json:"requestContext"`
}

type requestContext struct {
	DomainName string                                               `json:"domainName"`
	HTTP       events.APIGatewayV2HTTPRequestContextHTTPDescription `json:"http"`
	Authorizer *authorizer                                          `json:"authorizer"`
	RequestID  string                                               `json:"requestId"`
	Stage      string                                               `json:"stage"`
}

func (a adapter) serve(ctx context.Context, e event) (events.APIGatewayV2HTTPResponse, error) {
	request, err := a.request(ctx, e)
	if err != nil {
		return events.APIGatewayV2HTTPResponse{}, err
	}
	w := &recorder{header: http.Header{}}
	a.handler.ServeHTTP(w, request)
	return w.response(), nil
}

func (a adapter) request(ctx context.Context, e event) (*http.Request, error) {
	body := []byte(e.Body)
	if e.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(e.Body); err != nil {
			return nil, fmt.Errorf("decoding the body of request %s: %w", e.RequestContext.RequestID, err)
		}
	}
	target := url.URL{Path: e.RawPath, RawQuery: capWait(ctx, e.RawQueryString)}
	if stage := e.RequestContext.Stage; stage != "" && stage != "$default" {
		// A named stage is part of the path, and none of the handler's business.
		target.Path = strings.TrimPrefix(target.Path, "/"+stage)
	}
	if path, err := url.PathUnescape(target.Path); err == nil && path != target.Path {
		target.Path, target.RawPath = path, target.Path
	}
	request, err := http.NewRequestWithContext(withIdentity(ctx, e.RequestContext.Authorizer), e.RequestContext.HTTP.Method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("reading request %s: %w", e.RequestContext.RequestID, err)
	}
	for name, value := range e.Headers {
		// Repeated headers arrive joined by commas.
		request.Header.Set(name, value)
	}
	if len(e.Cookies) > 0 {
		request.Header.Set("Cookie", strings.Join(e.Cookies, "; "))
	}
	request.Host = e.RequestContext.DomainName
	request.RequestURI = target.RequestURI()
	request.RemoteAddr = e.RequestContext.HTTP.SourceIP
	return request, nil
}

const (
	// maxWait is the longest wait that the API grants; what is over it is the handler's
	// to refuse.
	maxWait = 25 * time.Second
	// answerWithin is what a wait leaves of the invocation for the answer.
	answerWithin = 2 * time.Second
)

// capWait lowers wait_ms to what the invocation has time for.
func capWait(ctx context.Context, query string) string {
	deadline, ok := ctx.Deadline()
	values, err := url.ParseQuery(query)
	if !ok || err != nil {
		return query
	}
	most := max(0, time.Until(deadline)-answerWithin)
	wait, err := strconv.ParseInt(values.Get("wait_ms"), 10, 64)
	if err != nil || wait <= most.Milliseconds() || wait > maxWait.Milliseconds() {
		return query
	}
	values.Set("wait_ms", strconv.FormatInt(most.Milliseconds(), 10))
	return values.Encode()
}

// recorder collects an answer.
type recorder struct {
	header http.Header
	status int
	// sent are the headers as they were when the status was written.
	sent http.Header
	body bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status, w.sent = status, w.header.Clone()
}

func (w *recorder) Write(data []byte) (int, error) {
	if w.status == 0 {
		if w.header.Get("Content-Type") == "" {
			w.header.Set("Content-Type", http.DetectContentType(data))
		}
		w.WriteHeader(http.StatusOK)
	}
	return w.body.Write(data)
}

func (w *recorder) response() events.APIGatewayV2HTTPResponse {
	w.WriteHeader(http.StatusOK)
	r := events.APIGatewayV2HTTPResponse{StatusCode: w.status, Headers: map[string]string{}, Cookies: w.sent.Values("Set-Cookie")}
	for name, values := range w.sent {
		if name != "Set-Cookie" {
			r.Headers[name] = strings.Join(values, ",")
		}
	}
	if isText(w.sent.Get("Content-Type")) && w.sent.Get("Content-Encoding") == "" && utf8.Valid(w.body.Bytes()) {
		r.Body = w.body.String()
		return r
	}
	r.Body, r.IsBase64Encoded = base64.StdEncoding.EncodeToString(w.body.Bytes()), w.body.Len() > 0
	return r
}

func isText(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err != nil || strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "javascript") || strings.HasSuffix(kind, "xml")
}
