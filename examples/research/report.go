package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/subagent"
)

type reportArgs struct {
	Title  string `json:"title"`
	Answer string `json:"answer" jsonschema:"the answer in Markdown, each statement with the name of its source in brackets behind it"`
}

// writeReport is the tool write_report. What the readers found it takes from their runs: no
// quote passes through the model that writes.
func (p *project) writeReport(ctx context.Context, in reportArgs) (string, error) {
	read, err := p.outcomes(ctx)
	if err != nil {
		return "", agent.Retryable(err)
	}
	text, err := render(in, p.job, read)
	if err != nil {
		return "", err
	}
	return "The report is written.", p.save(text)
}

// save writes the report. A file that has come to be since the work began, and that we have
// not written, was approved by nobody.
func (p *project) save(text string) error {
	there, err := os.ReadFile(p.report)
	if err == nil && !p.job.Replace {
		if ours, err := os.ReadFile(p.copyOfReport()); err != nil || string(ours) != string(there) {
			return harness.Terminal(fmt.Errorf("%s was not there when the work began and is now; move it away and start again", p.report))
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return harness.Terminal(fmt.Errorf("looking for an older report: %w", err))
	}
	if err := errors.Join(writeWhole(p.copyOfReport(), text, 0o600), writeWhole(p.report, text, 0o644)); err != nil {
		return harness.Terminal(fmt.Errorf("writing the report: %w", err))
	}
	return nil
}

// copyOfReport is where the report stands as this work has written it.
func (p *project) copyOfReport() string { return filepath.Join(p.texts.kept, "report.md") }

// outcome is how the reading of one source has ended.
type outcome struct {
	Source string
	Status subagent.Status
	reading
	// Reason says why there is no reading.
	Reason string
}

// outcomes tells of the sources in their order what their readers' runs say.
func (p *project) outcomes(ctx context.Context) ([]outcome, error) {
	runs, err := p.readers(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]outcome, len(runs))
	for i, r := range runs {
		if found[i], err = p.outcomeOf(ctx, r); err != nil {
			return nil, err
		}
	}
	return inOrder(p.job.Sources, found), nil
}

// inOrder has one outcome for each source: of several readers that were sent to it, that of
// one who has read it.
func inOrder(sources []string, found []outcome) []outcome {
	all := make([]outcome, len(sources))
	for i, source := range sources {
		all[i] = outcome{Source: source, Reason: "no reader was sent"}
	}
	for _, o := range found {
		if i := slices.Index(sources, o.Source); i >= 0 && all[i].Status != subagent.Completed {
			all[i] = o
		}
	}
	return all
}

// readers are the runs that the researcher has sent off.
func (p *project) readers(ctx context.Context) ([]subagent.Run, error) {
	runs, err := p.stack.Ledger.ListRuns(ctx, p.owner, "", 0)
	return slices.DeleteFunc(runs, func(r subagent.Run) bool { return r.Parent != p.run }), err
}

func (p *project) outcomeOf(ctx context.Context, r subagent.Run) (outcome, error) {
	o := outcome{Status: r.Status, Reason: r.Problem}
	var in assignment
	if err := p.load(ctx, r.Input, &in); err != nil {
		return o, err
	}
	o.Source = in.Source
	switch r.Status {
	case subagent.Completed:
		return o, p.load(ctx, r.Output, &o.reading)
	case subagent.Error:
	case subagent.Aborted:
		o.Reason = "its reader was stopped"
	case subagent.Interrupted:
		o.Reason = "its reader took too long"
	default:
		o.Reason = fmt.Sprintf("its reader had not ended after %d seconds", p.job.WaitSeconds)
	}
	return o, nil
}

func (p *project) load(ctx context.Context, v subagent.Value, into any) error {
	text, err := p.stack.Ledger.LoadValue(ctx, p.owner, v)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("decoding a value of a reader: %w", err)
	}
	return nil
}

var (
	bracketed = regexp.MustCompile(`\[([^\]\n]*)\]`)
	linked    = regexp.MustCompile(`\]\(`)
)

// render makes the report. Its errors tell the model what is wrong with the answer.
func render(in reportArgs, j job, read []outcome) (string, error) {
	var used []outcome
	number := map[string]int{}
	for _, o := range read {
		if len(o.Claims) > 0 {
			used = append(used, o)
			number[o.Source] = len(used)
		}
	}
	answer, cited, err := numbered(in.Answer, number)
	switch {
	case err != nil:
		return "", err
	case linked.MatchString(in.Answer):
		return "", errors.New("the answer has a link; name sources in brackets, without an address behind them")
	case cited == 0 && len(used) > 0:
		return "", errors.New("the answer names no source; put the name of its source in brackets behind each statement")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n*%s*\n\n%s\n", oneLine(in.Title), oneLine(j.Question), strings.TrimSpace(answer))
	if len(used) > 0 {
		b.WriteString("\n## Sources\n")
	}
	for _, o := range used {
		fmt.Fprintf(&b, "\n%d. %s\n", number[o.Source], o.Source)
		for _, c := range o.Claims {
			fmt.Fprintf(&b, "   - %s\n     > %s\n", oneLine(c.Text), oneLine(c.Quote))
		}
		if n := len(o.Refused); n > 0 {
			fmt.Fprintf(&b, "   - (Left out: %s whose quote is not in the source.)\n", count(n, "claim"))
		}
	}
	addUnused(&b, read)
	return b.String(), nil
}

// addUnused names the sources that gave nothing, and why.
func addUnused(b *strings.Builder, read []outcome) {
	heading := "\n## Without a finding\n\n"
	for _, o := range read {
		if len(o.Claims) > 0 {
			continue
		}
		reason := o.Reason
		if o.Status == subagent.Completed {
			reason = "it says nothing about the question"
		}
		fmt.Fprintf(b, "%s- %s: %s\n", heading, o.Source, oneLine(reason))
		heading = ""
	}
}

// numbered replaces the names of sources in brackets by their numbers.
func numbered(answer string, number map[string]int) (text string, cited int, err error) {
	text = bracketed.ReplaceAllStringFunc(answer, func(found string) string {
		name := strings.TrimSpace(found[1 : len(found)-1])
		n, ok := number[name]
		if !ok {
			err = fmt.Errorf("[%s] is not the name of a source with findings; brackets are for those alone, one name in each", name)
		}
		cited++
		return fmt.Sprintf("[%d]", n)
	})
	return text, cited, err
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
