package ingress

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/money"
)

// The document is built here from the routes and the Go types, and compared with the
// one that is checked in: `go test ./shared/ingress -run OpenAPI -update` writes it anew.
var update = flag.Bool("update", false, "write openapi.json anew")

type object = map[string]any

func TestTheOpenAPIDocumentIsWhatTheRoutesAndTypesSay(t *testing.T) {
	document := buildDocument()
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("openapi.json", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(openAPI), "\n"), strings.Split(want.String(), "\n")); diff != "" {
		t.Errorf("openapi.json has drifted from the code; run `go test ./shared/ingress -run OpenAPI -update` (-file +code):\n%s", diff)
	}
}

func TestEveryProblemOfARouteIsOfAKnownKind(t *testing.T) {
	used := map[string]bool{codeMethod: true}
	for _, r := range routes() {
		for _, code := range append([]string{codeInternal, codeUnavailable, codeStopping}, r.problems...) {
			if _, ok := kindOf(code); !ok {
				t.Errorf("%s %s has problem %q, which is of no kind", r.method, r.path, code)
			}
			used[code] = true
		}
	}
	for _, k := range kinds() {
		if !used[k.code] {
			t.Errorf("no route has problem %q", k.code)
		}
	}
}

func buildDocument() object {
	s := schemas{defined: object{}}
	paths := object{}
	for _, r := range routes() {
		operations, _ := paths[r.path].(object)
		if operations == nil {
			operations = object{}
			paths[r.path] = operations
		}
		operations[strings.ToLower(r.method)] = s.operation(r)
	}
	s.of(reflect.TypeFor[api.Problem](), false)
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Errand", "version": "1",
			"description": "Durable background subagents. Times are RFC 3339 with milliseconds, durations integers ending in _ms. Errors are application/problem+json; their type is answered with an explanation.",
		},
		"security": []any{object{"bearer": []any{}}, object{}},
		"paths":    paths,
		"components": object{
			"schemas":         s.defined,
			"securitySchemes": object{"bearer": object{"type": "http", "scheme": "bearer"}},
		},
	}
}

// schemas collects the schemas of the types that operations use.
type schemas struct{ defined object }

func (s schemas) operation(r route) object {
	op := object{"operationId": r.name, "summary": r.summary, "responses": s.responses(r)}
	if !r.tenant && !r.operator {
		op["security"] = []any{}
	}
	if parameters := parametersOf(r); len(parameters) > 0 {
		op["parameters"] = parameters
	}
	if r.request != nil {
		op["requestBody"] = object{
			"required": !r.optional,
			"content":  object{"application/json": object{"schema": s.of(reflect.TypeOf(r.request), true)}},
		}
	}
	return op
}

func (s schemas) responses(r route) object {
	success := object{"description": "Success"}
	if r.answer != nil {
		content := object{"application/json": object{"schema": s.of(reflect.TypeOf(r.answer), false)}}
		if slices.Contains(r.headers, resumeHeader) {
			content["text/event-stream"] = object{"schema": object{"type": "string", "description": "One Event per frame; id is its seq. Ephemeral run.progress frames have no id."}}
		}
		success["content"] = content
	}
	if r.location {
		success["headers"] = object{
			"Location":   object{"description": "Where the result is.", "schema": object{"type": "string"}},
			replayHeader: object{"description": "true if the request was accepted before; nothing was started twice.", "schema": object{"type": "string"}},
		}
	}
	responses := object{strconv.Itoa(r.status): success}
	byStatus := map[int][]string{}
	for _, code := range append([]string{codeInternal, codeUnavailable, codeStopping}, r.problems...) {
		k, _ := kindOf(code)
		if !slices.Contains(byStatus[k.status], code) {
			byStatus[k.status] = append(byStatus[k.status], code)
		}
	}
	for status, codes := range byStatus {
		slices.Sort(codes)
		answer := object{
			"description": http.StatusText(status) + ": " + strings.Join(codes, ", "),
			"content":     object{api.ProblemType: object{"schema": object{"$ref": "#/components/schemas/Problem"}}},
		}
		if retryAfter(kind{status: status}) != "" {
			answer["headers"] = object{"Retry-After": object{"description": "Seconds.", "schema": object{"type": "integer"}}}
		}
		responses[strconv.Itoa(status)] = answer
	}
	return responses
}

func parametersOf(r route) []any {
	var list []any
	for _, segment := range strings.Split(r.path, "/") {
		name, ok := strings.CutPrefix(segment, "{")
		if !ok {
			continue
		}
		schema := object{"type": "string"}
		if r.tenant || r.operator {
			schema["pattern"] = `^[A-Za-z0-9._:-]{1,128}$`
		}
		list = append(list, object{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": schema})
	}
	for _, name := range r.query {
		list = append(list, object{"name": name, "in": "query", "schema": querySchema(r, name)})
	}
	for _, name := range r.headers {
		schema := object{"type": "string"}
		if name == keyHeader {
			schema["maxLength"] = api.MaxKey
		}
		list = append(list, object{"name": name, "in": "header", "schema": schema})
	}
	return list
}

func querySchema(r route, name string) object {
	switch {
	case name == "limit":
		return object{"type": "integer", "minimum": 1, "maximum": api.MaxLimit, "default": api.DefaultLimit}
	case name == "wait_ms":
		return object{"type": "integer", "minimum": 0, "maximum": api.MaxWait.Milliseconds(), "default": 0}
	case name == "status":
		return object{"type": "string", "enum": []string{"active", "all"}, "default": "all"}
	case reflect.TypeOf(r.answer) == reflect.TypeFor[api.RunPage]():
		return object{"type": "string"}
	}
	return object{"type": "integer", "minimum": 0}
}

// of returns the schema of a type; structs are defined once and referred to. strict
// refuses further properties, as the server does for requests.
func (s schemas) of(t reflect.Type, strict bool) object {
	switch t {
	case reflect.TypeFor[api.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[money.USD](), reflect.TypeFor[api.Dollars]():
		return object{"type": "number", "minimum": 0}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	case reflect.TypeFor[api.Field[string]]():
		return object{"type": []string{"string", "null"}}
	case reflect.TypeFor[api.Field[api.Time]]():
		return object{"type": []string{"string", "null"}, "format": "date-time"}
	case reflect.TypeFor[api.Notify]():
		return object{"oneOf": []any{object{"type": "boolean"}, closed(object{"source": object{"type": "string"}}, "source")}}
	case reflect.TypeFor[api.Milestones]():
		names := object{"type": "array", "items": object{"type": "string"}}
		mode := object{"type": "string", "enum": []string{"narrate", "react"}, "default": "narrate"}
		return object{"oneOf": []any{names, closed(object{"names": names, "mode": mode}, "names")}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem(), strict)
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem(), strict)}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return object{"type": "object"}
		}
		return object{"type": "object", "additionalProperties": s.of(t.Elem(), strict)}
	}
	if s.defined[t.Name()] == nil {
		s.defined[t.Name()] = s.fields(t, strict)
	}
	return object{"$ref": "#/components/schemas/" + t.Name()}
}

func (s schemas) fields(t reflect.Type, strict bool) object {
	properties, required := object{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		property := s.of(f.Type, strict)
		if doc := f.Tag.Get("doc"); doc != "" {
			property["description"] = doc
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			property["enum"] = strings.Split(enum, ",")
		}
		properties[name] = property
		if rest == "" {
			required = append(required, name)
		}
	}
	schema := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	if strict {
		schema["additionalProperties"] = false
	}
	return schema
}

func closed(properties object, required ...string) object {
	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}
