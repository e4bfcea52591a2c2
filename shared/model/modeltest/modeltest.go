// Package modeltest is the suite that every vendor's adapter passes. A Vendor plays the
// API of one vendor as its documentation describes it; Run checks through it how the
// adapter asks, reads answers, and tells failures apart. What an adapter sends byte for byte
// is tested next to it.
package modeltest

import (
	"net/http"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/model"
)

// Vendor plays one vendor's API.
type Vendor struct {
	// New returns the adapter for the API at url, whose default model is "m-1".
	New func(t *testing.T, url string, timeout time.Duration) model.Model
	// Answer writes an answer, streamed if the request asks for that.
	Answer func(w http.ResponseWriter, r Request, a Answer)
	// Refuse writes a failure of this kind as the vendor does. Headers that the test has
	// set stay.
	Refuse func(w http.ResponseWriter, kind model.Kind)
	// Read returns what the vendor makes of a request: its model, words, tools and results.
	Read func(r Request) (model.Request, error)
	// AlwaysStreams: the adapter asks for a stream also if nobody listens.
	AlwaysStreams bool
	// ForgetsFailed: the API cannot say that a tool failed, so the adapter says it in words.
	ForgetsFailed bool
	// NeedsObjects: the API takes calls back with objects as arguments only.
	NeedsObjects bool
}

// Request is what an adapter sent.
type Request struct {
	Header http.Header
	Path   string
	Body   []byte

	gone <-chan struct{} // the caller has hung up
}

// Answer is what the vendor is to say.
type Answer struct {
	// Text is said in these pieces.
	Text  []string
	Calls []model.Call
	Stop  model.Stop
	Usage model.Usage
	// Model is the model's full name.
	Model string
	// Cut ends a stream after its text.
	Cut Cut
}

// Cut says how a stream ends early.
type Cut string

const (
	// Torn: the connection breaks.
	Torn Cut = "torn"
	// Short: the stream is closed in good order, without its last events.
	Short Cut = "short"
	// Stalled: nothing more comes.
	Stalled Cut = "stalled"
	// Overloaded: an error event says that the vendor is overloaded.
	Overloaded Cut = "overloaded"
)

// Run checks an adapter against its vendor.
func Run(t *testing.T, v Vendor) {
	t.Run("an answer is whole, streamed or not", v.testAnswers)
	t.Run("calls come as the model wrote them", v.testCalls)
	t.Run("each reason to stop is told", v.testStops)
	t.Run("a conversation is told in order", v.testConversation)
	t.Run("a stream that is cut is broken", v.testCuts)
	t.Run("failures are told apart", v.testKinds)
	t.Run("the vendor says when to try again", v.testRetryAfter)
	t.Run("the vendor may overrule its status", v.testShouldRetry)
	t.Run("an ended context ends the call", v.testEnded)
	t.Run("a call that hangs times out", v.testTimeout)
	t.Run("a stream that stalls times out", v.testStall)
	t.Run("a connection that is refused is broken", v.testRefusedConnection)
	t.Run("one try is one request", v.testNoRetries)
	t.Run("a request without a model is invalid", v.testNoModel)
}
