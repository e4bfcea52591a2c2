package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/anthropicmodel"
	"github.com/errand-dev/errand/shared/model/openaimodel"
	"github.com/errand-dev/errand/shared/model/scriptmodel"
)

//go:embed agents/*.md script.txt
var files embed.FS

const (
	researcher = "researcher"
	reader     = "reader"
)

// agents registers the researcher, which is an agent, and the reader, a task around one. guarded
// means that a report must not be replaced unasked.
func (p *project) agents(m model.Model, guarded bool) (*agent.Registry, error) {
	folder, err := fs.Sub(files, "agents")
	if err != nil {
		return nil, err
	}
	loaded, err := harness.Load(folder, harness.Parts{Model: m, Tools: []harness.Tool{
		harness.NewTool("read_file", "Read a file of the folder of sources.", p.texts.readFile),
		harness.NewTool("fetch", "Fetch a web page as text.", p.texts.fetch),
		harness.NewTool("check_quote", "Check whether a quote is in a source that was read.", p.texts.checkQuote),
		harness.NewTool("write_report", "Write the report, with its sources and their quotes.", p.writeReport),
	}})
	if err != nil {
		return nil, err
	}
	byName := map[string]harness.Agent{}
	for _, a := range loaded {
		byName[a.Name] = a
	}
	reading, err := readerOf(byName[reader])
	if err != nil {
		return nil, err
	}
	input, err := harness.SchemaOf[assignment]()
	if err != nil {
		return nil, err
	}
	chief := byName[researcher]
	chief.Subagents = []harness.Subagent{{Name: reader, Description: byName[reader].Description, Input: input}}
	if guarded {
		chief.Policies = map[string]harness.Policy{"write_report": harness.NeedsApproval}
	}
	registry := agent.NewRegistry()
	// wait_for gives the researcher what its readers found; they need not tell it again.
	registry.FormatCompletion = func(agent.Info) string { return "" }
	if err := registry.AddTask(reader, p.texts.checked(reading)); err != nil {
		return nil, err
	}
	return registry, harness.Register(registry, chief)
}

// readerOf has the agent checked and makes a task of it.
func readerOf(a harness.Agent) (agent.Task, error) {
	schema, err := harness.SchemaOf[findings]()
	if err != nil {
		return nil, err
	}
	a.OutputSchema = schema
	alone := agent.NewRegistry()
	if err := harness.Register(alone, a); err != nil {
		return nil, err
	}
	task, _ := alone.Task(a.Name)
	return task, nil
}

// keyOfCompatible is the key for a server that speaks OpenAI's API, if it wants one.
const keyOfCompatible = "OPENAI_COMPATIBLE_API_KEY"

// modelOf returns the model of that name.
func modelOf(name, baseURL string) (model.Model, error) {
	vendor, model, _ := strings.Cut(name, ":")
	compatible := vendor == "openai-compatible"
	switch {
	case baseURL != "" && !compatible:
		return nil, fmt.Errorf("--base-url goes with --model openai-compatible:NAME, not with %s", name)
	case name == "script":
		text, err := files.ReadFile("script.txt")
		if err != nil {
			return nil, err
		}
		return scriptmodel.Parse("script.txt", string(text))
	case vendor == "anthropic" && model != "":
		return anthropicmodel.New(anthropicmodel.Options{Model: model})
	case vendor == "openai" && model != "":
		return openaimodel.New(openaimodel.Options{Model: model})
	case compatible && model != "" && baseURL == "":
		return nil, fmt.Errorf("--model %s needs --base-url, like http://localhost:11434/v1 for Ollama", name)
	case compatible && model != "":
		return openaimodel.NewChat(openaimodel.Options{Model: model, BaseURL: baseURL, APIKey: os.Getenv(keyOfCompatible)})
	}
	return nil, fmt.Errorf("there is no model %q; it is script, anthropic:NAME, openai:NAME or openai-compatible:NAME", name)
}
