// Package openaimodel asks OpenAI's models, and those of the many servers that speak its
// API, with the vendor's own SDK.
//
// New asks through the Responses API, which is OpenAI's own choice for agents: its reasoning
// goes back, encrypted, with the next request, nothing is stored there, and long calls can
// be made in the background. NewChat asks through chat completions, which everybody
// speaks: Ollama, vLLM, llama.cpp and gateways, by their BaseURL.
//
// The key of a call is sent as Idempotency-Key. OpenAI does not document that it heeds it
// for these calls, so one that is made again may be billed again; gateways do heed it.
//
// Ollama cuts a context that is too long without a word, unless it is given room
// (OLLAMA_CONTEXT_LENGTH).
package openaimodel

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/option"

	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

const vendor = "openai"

// Options says whom to ask, and how. Zero values mean the defaults given.
type Options struct {
	// APIKey is OPENAI_API_KEY from the environment. That is not sent to a BaseURL set
	// here: if that wants a key, it must be given.
	APIKey string
	// BaseURL is OPENAI_BASE_URL from the environment, or OpenAI's own. It ends with the
	// version: http://localhost:11434/v1 is Ollama.
	BaseURL string
	// Model is asked by requests that name none.
	Model string
	// MaxTokens bounds answers to requests that give no bound, reasoning included; zero
	// leaves it to the server.
	MaxTokens int
	// Timeout bounds one call: ten minutes. Calls in the background may take longer.
	Timeout    time.Duration
	HTTPClient *http.Client
	// With is applied to each request last. It reaches what the vendor has and Errand does not
	// know, like option.WithJSONSet("reasoning.effort", "low").
	With []option.RequestOption
}

// client are the SDK's options for all requests.
func (o Options) client() ([]option.RequestOption, error) {
	key := o.APIKey
	if key == "" && o.BaseURL == "" {
		if key = os.Getenv("OPENAI_API_KEY"); key == "" {
			return nil, errors.New("openaimodel: no key: set OPENAI_API_KEY in the environment, or Options.APIKey; a server that needs none is set by Options.BaseURL")
		}
	}
	opts := []option.RequestOption{option.WithEnvironmentProduction(), option.WithMaxRetries(0), option.WithMiddleware(tidyErrors)}
	if base := o.address(); base != "" {
		if err := adapt.CheckURL(base); err != nil {
			return nil, fmt.Errorf("openaimodel: %w", err)
		}
		opts = append(opts, option.WithBaseURL(base))
	}
	if key != "" {
		opts = append(opts, option.WithAPIKey(key))
	}
	if o.HTTPClient != nil {
		opts = append(opts, option.WithHTTPClient(o.HTTPClient))
	}
	return append(opts, o.With...), nil
}

func (o Options) address() string { return cmp.Or(o.BaseURL, os.Getenv("OPENAI_BASE_URL")) }

// vendorsOwn reports whether the server is OpenAI's, at home or on Azure, and not one that
// imitates it.
func (o Options) vendorsOwn() bool {
	base := o.address()
	u, err := url.Parse(base)
	return base == "" || err == nil && (strings.HasSuffix(u.Hostname(), ".openai.com") || strings.HasSuffix(u.Hostname(), ".azure.com"))
}

func idempotent(key string) option.RequestOption { return option.WithHeader("Idempotency-Key", key) }

// output is a tool's result. The API has no field for a failed one.
func output(text string, failed bool) string {
	if failed {
		return "Error: " + text
	}
	return text
}
