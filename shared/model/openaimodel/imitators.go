package openaimodel

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/openai/openai-go/v3/option"
)

// longestError is how much of an error we read.
const longestError = 64 << 10

// tidyErrors brings errors of servers that imitate OpenAI into OpenAI's form, the only one
// that the SDK reads: {"error": {"message": …, "type": …, "code": …}}. Ollama's own API says
// {"error": "…"}, older versions of vLLM leave the envelope out.
func tidyErrors(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(r)
	if err != nil || res.StatusCode < 400 {
		return res, err
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, longestError))
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(tidied(raw)))
	return res, nil
}

func tidied(raw []byte) []byte {
	var plain struct{ Error string }
	if json.Unmarshal(raw, &plain) == nil && plain.Error != "" {
		return enveloped(map[string]any{"message": plain.Error})
	}
	var bare struct {
		Error         json.RawMessage
		Message, Type string
	}
	if json.Unmarshal(raw, &bare) == nil && bare.Error == nil && bare.Message != "" {
		return enveloped(map[string]any{"message": bare.Message, "type": bare.Type})
	}
	return raw
}

func enveloped(e map[string]any) []byte {
	raw, _ := json.Marshal(map[string]any{"error": e}) // strings always encode
	return raw
}
