package endpoint

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/errand-dev/errand/shared/awsclient"
)

// idleConnections is enough for every goroutine of the races to keep its own. The
// SDK keeps ten, and opens the others anew for each call.
const idleConnections = 64

// Clients returns SDK clients for the endpoint; it fills in cfg.Endpoint.
func Clients(tb testing.TB, cfg awsclient.Config) *awsclient.Clients {
	tb.Helper()
	cfg.Endpoint = URL(tb)
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost = idleConnections
		})
	}
	cfg.HTTPClient = whole{cfg.HTTPClient}
	clients, err := awsclient.New(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return clients
}

// whole reads each answer to its end before the SDK sees it. The SDK closes the
// request's body as soon as it has the answer's headers, and about once in a
// thousand calls net/http takes that for an aborted request and drops the
// connection with the rest of the answer. The SDK then repeats a call that took
// place, which is right, and tested on purpose where tests lose an answer
// themselves; but a receive whose answer is lost hides its messages from the test.
type whole struct{ client awsclient.HTTPClient }

func (w whole) Do(r *http.Request) (*http.Response, error) {
	response, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(data))
	return response, nil
}
