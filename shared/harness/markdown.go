package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/errand-dev/errand/shared/model"
)

// Parts are what agents written as files are put together from.
type Parts struct {
	Model model.Model
	Tools []Tool
}

// Load reads the agents in the folder, one from each Markdown file, in the order of their
// names. Fields stand in front between two lines "---", the rest is the instructions:
//
//	---
//	name: researcher
//	description: Finds out what is known about a subject.
//	model: large-model
//	tools: search, fetch
//	disabled: fetch
//	subagents:
//	  - reader
//	---
//	You find out what is known …
//
// Only name is required. A list is separated by commas, or has a line for each entry.
// Errors tell of all files, each with its line. Register the agents to have them checked.
func Load(folder fs.FS, parts Parts) ([]Agent, error) {
	files, err := fs.Glob(folder, "*.md")
	if err != nil {
		return nil, fmt.Errorf("listing agents: %w", err)
	}
	slices.Sort(files)
	var agents []Agent
	var errs []error
	seen := map[string]string{}
	for _, file := range files {
		text, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, fmt.Errorf("reading an agent: %w", err)
		}
		d := document{file: file, parts: parts}
		a, err := d.read(string(text))
		if err == nil && seen[a.Name] != "" {
			err = d.at(d.fields["name"].line, "agent %q is in %s already", a.Name, seen[a.Name])
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		seen[a.Name] = file
		agents = append(agents, a)
	}
	return agents, errors.Join(errs...)
}

// document is one file.
type document struct {
	file   string
	parts  Parts
	fields map[string]*field
}

// field is what stands in front of the instructions under one name.
type field struct {
	line   int
	text   string
	values []value
}

type value struct {
	line int
	text string
}

func (d *document) at(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", d.file, line, fmt.Errorf(format, args...))
}

func (d *document) read(text string) (Agent, error) {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if strings.TrimSpace(lines[0]) != "---" {
		return Agent{}, d.at(1, "an agent's file begins with a line \"---\" and its fields")
	}
	end := slices.IndexFunc(lines[1:], func(l string) bool { return strings.TrimSpace(l) == "---" }) + 1
	if end == 0 {
		return Agent{}, d.at(1, "the fields are not closed by a second line \"---\"")
	}
	if err := d.readFields(lines[1:end]); err != nil {
		return Agent{}, err
	}
	a := Agent{
		Name: d.text("name"), Description: d.text("description"), Model: d.parts.Model, ModelName: d.text("model"),
		Instructions: strings.TrimSpace(strings.Join(lines[end+1:], "\n")),
	}
	if a.Name == "" {
		return a, d.at(1, "there is no name; for this file it could be %q", strings.TrimSuffix(path.Base(d.file), ".md"))
	}
	for _, sub := range d.list("subagents") {
		a.Subagents = append(a.Subagents, Subagent{Name: sub.text})
	}
	for _, off := range d.list("disabled") {
		if a.Policies == nil {
			a.Policies = map[string]Policy{}
		}
		a.Policies[off.text] = Disabled
	}
	var err error
	a.Tools, err = d.tools()
	return a, err
}

// readFields reads "name: value" lines and the "- value" lines below them.
func (d *document) readFields(lines []string) error {
	d.fields = map[string]*field{}
	var last *field
	for i, l := range lines {
		number := i + 2
		text := strings.TrimSpace(l)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if entry, ok := strings.CutPrefix(text, "- "); ok {
			if last == nil || last.text != "" {
				return d.at(number, "this entry belongs to no list")
			}
			last.values = append(last.values, value{number, unquoted(entry)})
			continue
		}
		name, rest, ok := strings.Cut(text, ":")
		if !ok {
			return d.at(number, "%q is neither \"name: value\" nor an entry \"- value\"", text)
		}
		if !slices.Contains([]string{"name", "description", "model", "tools", "disabled", "subagents"}, name) {
			return d.at(number, "there is no field %q; there are name, description, model, tools, disabled and subagents", name)
		}
		if d.fields[name] != nil {
			return d.at(number, "the field %q stands here twice", name)
		}
		last = &field{line: number, text: unquoted(rest)}
		d.fields[name] = last
	}
	return nil
}

func unquoted(s string) string {
	s = strings.TrimSpace(s)
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

func (d *document) text(name string) string {
	if f := d.fields[name]; f != nil {
		return f.text
	}
	return ""
}

func (d *document) list(name string) []value {
	f := d.fields[name]
	if f == nil {
		return nil
	}
	values := f.values
	for part := range strings.SplitSeq(strings.Trim(f.text, "[]"), ",") {
		if part = unquoted(part); part != "" {
			values = append(values, value{f.line, part})
		}
	}
	return values
}

func (d *document) tools() ([]Tool, error) {
	var tools []Tool
	for _, v := range d.list("tools") {
		i := slices.IndexFunc(d.parts.Tools, func(t Tool) bool { return t.name == v.text })
		if i < 0 {
			return nil, d.at(v.line, "there is no tool %q", v.text)
		}
		tools = append(tools, d.parts.Tools[i])
	}
	return tools, nil
}
