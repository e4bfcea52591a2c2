package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// pruneFile takes the HTTP API out of a template, for an endpoint that has none.
func pruneFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the template: %w", err)
	}
	if data, err = prune(data); err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing the template: %w", err)
	}
	return nil
}

// prune removes the API's resources and whatever refers to them.
func prune(data []byte) ([]byte, error) {
	var template map[string]any
	if err := json.Unmarshal(data, &template); err != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	gone := map[string]bool{}
	section := func(name string) map[string]any { s, _ := template[name].(map[string]any); return s }
	for again := true; again; {
		again = false
		for _, name := range []string{"Resources", "Outputs"} {
			for id, value := range section(name) {
				properties, _ := value.(map[string]any)
				kind, _ := properties["Type"].(string)
				if strings.HasPrefix(kind, "AWS::ApiGatewayV2::") || refers(value, gone) {
					delete(section(name), id)
					gone[id], again = true, true
				}
			}
		}
	}
	return json.MarshalIndent(template, "", " ")
}

// refers reports whether the value has a reference to one of the ids.
func refers(value any, ids map[string]bool) bool {
	switch v := value.(type) {
	case map[string]any:
		if ref, ok := v["Ref"].(string); ok && ids[ref] {
			return true
		}
		if get, ok := v["Fn::GetAtt"].([]any); ok && len(get) > 0 {
			if id, _ := get[0].(string); ids[id] {
				return true
			}
		}
		if depends, ok := v["DependsOn"].([]any); ok {
			for _, on := range depends {
				if id, _ := on.(string); ids[id] {
					return true
				}
			}
		}
		for _, inner := range v {
			if refers(inner, ids) {
				return true
			}
		}
	case []any:
		for _, inner := range v {
			if refers(inner, ids) {
				return true
			}
		}
	}
	return false
}
