package adapt

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Fields reads the JSON schema of an object for the SDKs that want it in parts. Each part
// stays as it was written: the order of properties is the order that a model writes them in.
func Fields(what string, schema json.RawMessage) (map[string]any, error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(schema, &parts); err != nil {
		return nil, Invalid(fmt.Sprintf("%s is no JSON schema of an object: %v", what, err))
	}
	fields := make(map[string]any, len(parts))
	for name, part := range parts {
		fields[name] = part
	}
	return fields, nil
}

// Instruct adds the schema of the answer to the instructions, where the vendor does not
// enforce it.
func Instruct(system string, schema json.RawMessage) string {
	if len(schema) == 0 {
		return system
	}
	const told = "Give your final answer as one JSON value that follows this JSON schema, with no other words and no code fence:\n"
	return strings.TrimSpace(system + "\n\n" + told + string(schema))
}

// Strict reports whether vendors can hold a model to the schema: it is an object, all of
// whose properties are required and known, at every depth, in terms that they support.
func Strict(schema json.RawMessage) bool {
	var root map[string]any
	return json.Unmarshal(schema, &root) == nil && root["type"] == "object" && strict(root)
}

func strict(schema map[string]any) bool {
	for key, value := range schema {
		switch key {
		default:
			return false
		case "type", "title", "description", "required", "additionalProperties", "enum", "const", "$ref", "$schema":
		case "properties", "$defs":
			if !each(values(value)) {
				return false
			}
		case "items":
			if !each([]any{value}) {
				return false
			}
		case "anyOf":
			if list, _ := value.([]any); !each(list) {
				return false
			}
		}
	}
	if !isObject(schema["type"]) {
		return true
	}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for name := range properties {
		if !slices.Contains(required, any(name)) {
			return false
		}
	}
	return schema["additionalProperties"] == false
}

func each(schemas []any) bool {
	return !slices.ContainsFunc(schemas, func(s any) bool {
		schema, ok := s.(map[string]any)
		return !ok || !strict(schema)
	})
}

func values(properties any) []any {
	var all []any
	fields, _ := properties.(map[string]any)
	for _, v := range fields {
		all = append(all, v)
	}
	return all
}

// isObject reports whether a schema's type, a name or a list of names, allows objects.
func isObject(t any) bool {
	names, _ := t.([]any)
	return t == "object" || slices.Contains(names, any("object"))
}
