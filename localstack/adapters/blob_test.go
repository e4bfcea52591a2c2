package adapters

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/errand-dev/errand/localstack/endpoint"
	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/platform"
)

// flipping changes one byte of every answer to a GET, as a broken disk or proxy would.
type flipping struct{}

func (flipping) Do(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultClient.Do(r)
	if err != nil || r.Method != http.MethodGet || response.StatusCode != http.StatusOK {
		return response, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	data[len(data)/2] ^= 1
	response.Body = io.NopCloser(bytes.NewReader(data))
	return response, nil
}

func TestABlobThatCameBackDamagedIsAnError(t *testing.T) {
	// The SDK checks by default, until somebody sets this.
	t.Setenv("AWS_RESPONSE_CHECKSUM_VALIDATION", "when_required")
	blobs := newBlobs(t, endpoint.Clients(t, awsclient.Config{HTTPClient: flipping{}}))
	if err := blobs.PutBlob(t.Context(), "b", []byte("some data")); err != nil {
		t.Fatal(err)
	}
	if got, err := blobs.GetBlob(t.Context(), "b"); err == nil {
		t.Errorf("got %q without an error", got)
	}
	if _, err := blobs.GetBlob(t.Context(), "absent"); !errors.Is(err, platform.ErrNoBlob) {
		t.Errorf("an absent blob: %v", err)
	}
}
