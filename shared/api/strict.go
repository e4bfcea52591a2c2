package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// FieldError is returned by Decode when one field is at fault.
type FieldError struct {
	// Field is its path, with dots.
	Field string
	// Unknown is set if there is no such field.
	Unknown bool
	Problem string
}

func (e *FieldError) Error() string { return fmt.Sprintf("field %q %s", e.Field, e.Problem) }

// Decode decodes exactly one JSON value into the struct that v points to. A field that
// the struct does not have, in exactly that spelling, or that comes twice, is a
// *FieldError: a typo must not silently change what is asked.
func Decode(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := checkNames(d, reflect.TypeOf(v).Elem(), ""); err != nil {
		return syntaxError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one JSON value")
	}
	err := json.Unmarshal(raw, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return &FieldError{Field: wrong.Field, Problem: fmt.Sprintf("cannot be a JSON %s", wrong.Value)}
	}
	return err
}

// within adds the path before the field of a *FieldError.
func within(path string, err error) error {
	var field *FieldError
	if errors.As(err, &field) {
		return &FieldError{Field: path + "." + field.Field, Unknown: field.Unknown, Problem: field.Problem}
	}
	return err
}

func syntaxError(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON ends too early")
	case errors.As(err, &syntax):
		return fmt.Errorf("the JSON is broken at byte %d: %w", syntax.Offset, err)
	}
	return err
}

// checkNames reads one value, and checks the names in it where t is a struct. Types
// that decode themselves check their own.
func checkNames(d *json.Decoder, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return d.Decode(new(json.RawMessage))
	}
	token, err := d.Token()
	if err != nil || token == nil && path != "" {
		return err
	}
	if token != json.Delim('{') {
		return &FieldError{Field: path, Problem: "must be a JSON object"}
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		full := strings.TrimPrefix(path+"."+name, ".")
		field, known := fieldNamed(t, name)
		switch {
		case !known:
			return &FieldError{Field: full, Unknown: true, Problem: "is unknown"}
		case seen[name]:
			return &FieldError{Field: full, Problem: "comes twice"}
		}
		seen[name] = true
		if err := checkNames(d, field.Type, full); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

func fieldNamed(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if tag == name && tag != "-" {
			return t.Field(i), true
		}
	}
	return reflect.StructField{}, false
}
