// Package model is the one interface that Errand asks language models through.
// Package scriptmodel answers from a script; anthropicmodel, openaimodel and bedrockmodel
// ask vendors through their own SDKs.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Model answers one request. It keeps nothing between calls and may be used from
// several goroutines.
type Model interface {
	// Generate asks once. stream, if not nil, is given text as it arrives; the response
	// is the whole all the same. key identifies the call: where the vendor accepts an
	// idempotency key, a repeated call with the same key is billed once.
	//
	// A failure is an *Error. ctx ends the call; its cause is what the error wraps then.
	Generate(ctx context.Context, key string, req Request, stream func(text string)) (Response, error)
}

// Defaulter is a Model that tells what it takes for what a request leaves out: the
// vendor's model, and the bound of the answer in tokens, zero if there is none. What a call
// will cost can then be told before it is made.
type Defaulter interface {
	Defaults() (name string, maxTokens int)
}

// Background is a Model whose vendor answers a long request without a connection that is
// held open: it is submitted, and its answer fetched later, by any process.
type Background interface {
	Model
	// Submit begins the call and returns the vendor's id for it. key is as for Generate.
	Submit(ctx context.Context, key string, req Request) (id string, err error)
	// Fetch returns the answer once done is true. Fetching again gives the same answer. With
	// an error, done says that the call has ended with it, and not only the fetching.
	Fetch(ctx context.Context, id string) (res Response, done bool, err error)
	// Abandon stops the call, so that it costs no more. One that has ended is left alone.
	Abandon(ctx context.Context, id string) error
}

// Role says who speaks.
type Role string

const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Request is one call.
type Request struct {
	// Model names the vendor's model; empty means the adapter's default.
	Model    string
	System   string
	Messages []Message
	Tools    []Tool
	// MaxTokens bounds the answer; zero means the adapter's default.
	MaxTokens int
	// Schema, if set, is the JSON schema that the final answer must follow.
	Schema json.RawMessage
}

// Message is one entry of the context. Roles alternate; results of tools stand in a
// message of the user.
type Message struct {
	Role    Role
	Text    string
	Calls   []Call
	Results []Result
	// Opaque is the Response.Opaque of the answer that this message repeats.
	Opaque json.RawMessage
}

// Tool is a function that the model may call.
type Tool struct {
	Name        string
	Description string
	// Schema is the JSON schema of its arguments, an object.
	Schema json.RawMessage
}

// Call is the model's wish to call a tool.
type Call struct {
	ID   string
	Name string
	// Arguments is JSON as the model wrote it: it may be malformed.
	Arguments json.RawMessage
}

// Result answers a Call.
type Result struct {
	CallID string
	Text   string
	// Failed: Text says what went wrong.
	Failed bool
}

// Stop says why the model stopped.
type Stop string

const (
	StopEnd       Stop = "end"        // it has answered
	StopTools     Stop = "tools"      // it wants tools called
	StopMaxTokens Stop = "max_tokens" // the answer was cut
	StopRefusal   Stop = "refusal"    // it declines to answer
)

// Response is one answer.
type Response struct {
	Text  string
	Calls []Call
	Stop  Stop
	Usage Usage
	// Model is the model that answered, as the vendor names it.
	Model string
	// Opaque is what the adapter wants back with this answer in the next request, like
	// signed reasoning. It is JSON, kept in the journal, and means nothing to anybody else; an
	// adapter passes over what another one wrote.
	Opaque json.RawMessage
}

// Usage counts tokens, as the vendor bills them. No token is counted twice: Input is
// without what came from, or went to, the cache.
type Usage struct {
	Input, Output, CacheRead, CacheWrite int64
}

// Kind classifies failures.
type Kind string

const (
	// Retryable kinds.
	Overloaded  Kind = "overloaded"
	RateLimited Kind = "rate_limited"
	Timeout     Kind = "timeout"
	Broken      Kind = "broken" // the answer or the connection was cut
	// Terminal kinds.
	Invalid      Kind = "invalid_request"
	TooLong      Kind = "context_too_long"
	Unauthorized Kind = "unauthorized"
	NotFound     Kind = "not_found"
	Ended        Kind = "ended" // ctx ended
)

// Error is a failed call.
type Error struct {
	Kind Kind
	// After is how long to wait before another try, zero if the vendor did not say.
	After time.Duration
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("model: %s: %v", e.Kind, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same call may succeed later, and when to try it.
func Retryable(err error) (after time.Duration, ok bool) {
	var e *Error
	if !errors.As(err, &e) {
		return 0, false
	}
	switch e.Kind {
	case Overloaded, RateLimited, Timeout, Broken:
		return e.After, true
	}
	return 0, false
}
