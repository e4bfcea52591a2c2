package mcptools

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// textOf is what the model is shown of a result; a failed one is an error.
func textOf(r *mcp.CallToolResult) (string, error) {
	if r.NeedsInput() {
		return "", errors.New("the tool asks a user for more, and there is none to ask")
	}
	var lines []string
	for _, c := range r.Content {
		if !repeats(c, r.StructuredContent) {
			lines = append(lines, lineOf(c))
		}
	}
	if r.StructuredContent != nil {
		raw, err := json.Marshal(r.StructuredContent)
		if err != nil {
			return "", fmt.Errorf("encoding the result: %w", err)
		}
		lines = append(lines, string(raw))
	}
	text := strings.Join(lines, "\n")
	switch {
	case r.IsError && text == "":
		return "", errors.New("the tool failed and did not say why")
	case r.IsError:
		return "", errors.New(text)
	}
	return text, nil
}

// repeats reports whether the content is the structured one as a text, which servers send for
// clients that know no other.
func repeats(c mcp.Content, structured any) bool {
	text, ok := c.(*mcp.TextContent)
	if !ok || structured == nil {
		return false
	}
	var value any
	return json.Unmarshal([]byte(text.Text), &value) == nil && reflect.DeepEqual(value, structured)
}

func lineOf(c mcp.Content) string {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text
	case *mcp.ImageContent:
		return fmt.Sprintf("[an image, %s, %d bytes; it cannot be shown]", c.MIMEType, len(c.Data))
	case *mcp.AudioContent:
		return fmt.Sprintf("[audio, %s, %d bytes; it cannot be played]", c.MIMEType, len(c.Data))
	case *mcp.ResourceLink:
		return described("[a resource: "+c.URI, c.Name, c.MIMEType, c.Description) + "]"
	case *mcp.EmbeddedResource:
		return resource(c.Resource)
	}
	return fmt.Sprintf("[content of an unknown kind, %T]", c)
}

// resource shows the text of an embedded one: it stands nowhere else.
func resource(r *mcp.ResourceContents) string {
	switch {
	case r == nil:
		return "[an empty resource]"
	case r.Blob != nil:
		return described("[a resource: "+r.URI, r.MIMEType, fmt.Sprintf("%d bytes; it cannot be shown", len(r.Blob))) + "]"
	}
	return described("[a resource: "+r.URI, r.MIMEType) + "]\n" + r.Text
}

func described(what string, more ...string) string {
	for _, m := range more {
		if m != "" {
			what += ", " + m
		}
	}
	return what
}
