package ingress_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// document is openapi.json, as far as answers are checked by it.
type document struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]json.RawMessage `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	Responses map[string]struct {
		Content map[string]struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

// readDocument reads the document that is checked in, its references made those of JSON
// Schema.
var readDocument = sync.OnceValues(func() (document, error) {
	var d document
	raw, err := os.ReadFile("openapi.json")
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(bytes.ReplaceAll(raw, []byte("#/components/schemas/"), []byte("#/$defs/")), &d)
})

// checkSchema wants the body to be what the document says of this answer.
func checkSchema(t *testing.T, pattern string, status int, contentType string, body []byte) {
	t.Helper()
	d, err := readDocument()
	if err != nil {
		t.Fatal(err)
	}
	method, path, _ := strings.Cut(pattern, " ")
	content, known := d.Paths[path][strings.ToLower(method)].Responses[strconv.Itoa(status)].Content[contentType]
	if !known {
		if len(body) > 0 {
			t.Errorf("%s answered %d with %s, of which the document knows nothing", pattern, status, contentType)
		}
		return
	}
	resolved, err := resolve(d, content.Schema)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatalf("%s answered %s: %v", pattern, body, err)
	}
	if err := resolved.Validate(value); err != nil {
		t.Errorf("%s answered %d %.300s: %v", pattern, status, body, err)
	}
}

// resolved keeps schemas that were resolved, by their text: resolving takes long.
var resolved sync.Map

func resolve(d document, schema json.RawMessage) (*jsonschema.Resolved, error) {
	if known, ok := resolved.Load(string(schema)); ok {
		return known.(*jsonschema.Resolved), nil
	}
	raw, err := json.Marshal(map[string]any{"allOf": []any{schema}, "$defs": d.Components.Schemas})
	if err != nil {
		return nil, err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	made, err := s.Resolve(nil)
	if err == nil {
		resolved.Store(string(schema), made)
	}
	return made, err
}
