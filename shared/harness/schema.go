package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// schema is a JSON schema that values can be checked against.
type schema struct {
	raw      json.RawMessage
	resolved *jsonschema.Resolved
}

// SchemaOf derives the JSON schema of T: its fields by their JSON names, required unless
// marked omitempty, described by their jsonschema tags; others are not allowed. It
// fails for types that JSON does not know, like functions.
func SchemaOf[T any]() (json.RawMessage, error) {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, fmt.Errorf("deriving a JSON schema: %w", err)
	}
	return json.Marshal(s)
}

func compile(raw json.RawMessage) (*schema, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("reading a JSON schema: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("reading a JSON schema: %w", err)
	}
	return &schema{raw, resolved}, nil
}

// object refuses a schema of anything but an object: what tools take.
func (s *schema) object() error {
	if t := s.resolved.Schema().Type; t != "object" {
		return fmt.Errorf("arguments must be an object, not %q", t)
	}
	return nil
}

// check says in words for the model what is wrong with a value, if anything is.
func (s *schema) check(raw json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	var value any
	if err := d.Decode(&value); err != nil {
		return fmt.Errorf("it is not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("it is more than one JSON value")
	}
	if err := s.resolved.Validate(value); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "validating root: "))
	}
	return nil
}

// unfenced takes the fence off a JSON answer that a model has put into one.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "```"); ok {
		if body, ok := strings.CutSuffix(rest, "```"); ok {
			return strings.TrimSpace(strings.TrimPrefix(body, "json"))
		}
	}
	return text
}
