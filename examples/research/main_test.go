package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/scriptmodel"
	"github.com/errand-dev/errand/shared/subagent"
)

const sample = "Why is high water later every day, and where is the tide largest?"

// asked are options for the sample question in folders of the test's own.
func asked(t *testing.T) options {
	return options{
		question: sample, sources: []string{"sources"}, out: filepath.Join(t.TempDir(), "report.md"),
		data: t.TempDir(), modelName: "script", wait: time.Minute,
	}
}

// scripted lets the script stand in for the model.
func (o options) scripted(t *testing.T, script string) options {
	t.Helper()
	m, err := scriptmodel.Parse("test", script)
	if err != nil {
		t.Fatal(err)
	}
	o.model = m
	return o
}

// run does the research and returns what it told.
func run(t *testing.T, o options) (events []event, err error) {
	t.Helper()
	var out bytes.Buffer
	o.jsonEvents = true
	err = research(t.Context(), o, &out)
	return decoded(t, out.Bytes()), err
}

func decoded(t *testing.T, out []byte) (events []event) {
	t.Helper()
	for line := range bytes.Lines(out) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		events = append(events, e)
	}
	return events
}

// calls is how many model calls were paid for.
func calls(events []event) int64 {
	for _, e := range events {
		if e.Type == eventCost {
			return e.Cost.ModelCalls
		}
	}
	return -1
}

// write writes a file below dir.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func contents(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestTheSampleQuestionIsAnsweredFromItsSources(t *testing.T) {
	o := asked(t)
	var out bytes.Buffer
	if err := research(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(contents(t, "testdata/report.md"), contents(t, o.out)); diff != "" {
		t.Errorf("the report differs (-want +got):\n%s", diff)
	}
	for _, want := range []string{
		sample + "\n  reading   4 sources\n", "  read      fundy.md: 2 claims\n", "  read      mill.md: 1 claim\n",
		"  report    " + o.out + "\n\nHigh water is later", "Cost: $0.00", " for 13 model calls, ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in the output:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("there are escape sequences without a terminal")
	}
}

// twoFiles is a script for two sources, whose reports cite the first. What readers found comes
// by wait_for alone.
const twoFiles = `when the background task
I was told twice.

when "sources":\["([^"]+)","([^"]+)"\],"wait_seconds":(\d+)
> call background_reader {"source":"{{1}}","question":"?"}
> call background_reader {"source":"{{2}}","question":"?"}
---
> call wait_for {"ids":{{ids}},"timeout_seconds":{{3}}}
---
> call write_report {"title":"T","answer":"It is so [{{1}}]."}
---
{{result}}
`

func TestAQuoteThatIsNotInTheSourceDoesNotReachTheReport(t *testing.T) {
	o := asked(t)
	o.sources = []string{t.TempDir()}
	write(t, o.sources[0], "a.txt", "Tides are moved by\nthe moon, says everybody.")
	write(t, o.sources[0], "b.txt", "Nothing of note here.")
	events, err := run(t, o.scripted(t, twoFiles+`
when "source":"(a.txt)"
> call read_file {"path":"{{1}}"}
---
{"source":"a.txt","claims":[{"text":"True.","quote":"moved by the moon"},{"text":"Invented.","quote":"moved by the sun"}]}
when "source":"(b.txt)"
> call read_file {"path":"{{1}}"}
---
{"source":"b.txt","claims":[{"text":"Invented, too.","quote":"moved by the wind"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `# T

*` + sample + `*

It is so [1].

## Sources

1. a.txt
   - True.
     > moved by the moon
   - (Left out: 1 claim whose quote is not in the source.)

## Without a finding

- b.txt: its reader quoted what is not in it, like "moved by the wind"
`
	if diff := cmp.Diff(want, contents(t, o.out)); diff != "" {
		t.Errorf("the report differs (-want +got):\n%s", diff)
	}
	for _, e := range events {
		if e.Source == "a.txt" && (e.Status != subagent.Completed || e.Claims != 1 || e.Refused != 1) || e.Source == "b.txt" && e.Status != subagent.Error {
			t.Errorf("told as %+v", e)
		}
	}
}

func TestAnAnswerThatCitesWhatNobodyReadIsSentBack(t *testing.T) {
	o := asked(t)
	o.sources = []string{t.TempDir()}
	write(t, o.sources[0], "a.txt", "The moon moves the sea.")
	write(t, o.sources[0], "b.txt", "Nothing of note here.")
	script := strings.Replace(twoFiles, `---
{{result}}`, `---
> call write_report {"title":"T","answer":"It is so."}
---
> call write_report {"title":"T","answer":"It is so [a.txt]."}
---
Done.`, 1)
	script = strings.Replace(script, "so [{{1}}]", "so [http://invented.example]", 1)
	_, err := run(t, o.scripted(t, script+`
when "source":"(a.txt)"
> call read_file {"path":"{{1}}"}
---
{"source":"a.txt","claims":[{"text":"True.","quote":"The moon moves the sea."}]}
when "source":"(b.txt)"
> call read_file {"path":"{{1}}"}
---
{"source":"b.txt","claims":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	report := contents(t, o.out)
	if strings.Contains(report, "invented") || !strings.Contains(report, "It is so [1].") || !strings.Contains(report, "- b.txt: it says nothing about the question\n") {
		t.Errorf("the report is\n%s", report)
	}
}

func TestAReportThatIsThereIsReplacedAfterApprovalOnlyAndNothingIsReadAgain(t *testing.T) {
	o := asked(t)
	write(t, filepath.Dir(o.out), "report.md", "an older report")
	if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), "--yes") {
		t.Fatalf("the error is %v", err)
	}
	if got := contents(t, o.out); got != "an older report" {
		t.Fatalf("it was replaced by %q", got)
	}
	o.yes = true
	events, err := run(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if contents(t, o.out) != contents(t, "testdata/report.md") || calls(events) != 13 {
		t.Errorf("%d calls were paid for, the report is\n%s", calls(events), contents(t, o.out))
	}
	// The question is answered; asked once more it is worked on anew.
	if events, err = run(t, o); err != nil || calls(events) != 13 {
		t.Errorf("%d calls, %v", calls(events), err)
	}
}

func TestAWaitingReportMayGoElsewhere(t *testing.T) {
	o := asked(t)
	write(t, filepath.Dir(o.out), "report.md", "an older report")
	if _, err := run(t, o); err == nil {
		t.Fatal("the report was written unasked")
	}
	o.out = filepath.Join(t.TempDir(), "other.md")
	if events, err := run(t, o); err != nil || calls(events) != 13 || contents(t, o.out) != contents(t, "testdata/report.md") {
		t.Errorf("%d calls, %v", calls(events), err)
	}
}

func TestAFileThatCameToBeMeanwhileIsNotReplaced(t *testing.T) {
	p := &project{report: filepath.Join(t.TempDir(), "report.md"), texts: &library{kept: t.TempDir()}}
	if err := p.save("ours"); err != nil {
		t.Fatal(err)
	}
	if err := p.save("ours, written again after a crash"); err != nil {
		t.Errorf("our own report: %v", err)
	}
	write(t, filepath.Dir(p.report), "report.md", "somebody else's")
	if err := p.save("ours"); err == nil || contents(t, p.report) != "somebody else's" {
		t.Errorf("error %v, the file is %q", err, contents(t, p.report))
	}
	p.job.Replace = true
	if err := p.save("ours"); err != nil || contents(t, p.report) != "ours" {
		t.Errorf("after approval: error %v, the file is %q", err, contents(t, p.report))
	}
}

func TestWhatCannotBeAskedIsRefusedBeforeAnythingRuns(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "")
	t.Setenv("OPENAI_API_KEY", "")
	empty := t.TempDir()
	for name, tc := range map[string]struct {
		change func(*options)
		want   string
	}{
		"no source":            {func(o *options) { o.sources = nil }, "there is nothing to read"},
		"an empty folder":      {func(o *options) { o.sources = []string{empty} }, "there is nothing to read"},
		"no folder":            {func(o *options) { o.sources = []string{"nothing"} }, "listing the folder"},
		"two folders":          {func(o *options) { o.sources = []string{"sources", "agents"} }, "two folders"},
		"plain http":           {func(o *options) { o.sources = []string{"http://a.example/"} }, "only https"},
		"a host not allowed":   {func(o *options) { o.sources = []string{"https://a.example/"} }, "--allow a.example"},
		"another host allowed": {func(o *options) { o.sources, o.allow = []string{"https://xa.example/"}, []string{"*.a.example"} }, "--allow xa.example"},
		"a bad host":           {func(o *options) { o.allow = []string{"https://a.example"} }, "without scheme"},
		"a report in nowhere":  {func(o *options) { o.out = filepath.Join(empty, "none", "r.md") }, "there is no folder"},
		"a folder as report":   {func(o *options) { o.out = empty }, "and no file"},
		"no patience":          {func(o *options) { o.wait = 0 }, "--wait"},
		"an unknown model":     {func(o *options) { o.modelName = "gpt" }, "there is no model"},
		"a model without name": {func(o *options) { o.modelName = "openai:" }, "there is no model"},
		"no Anthropic key":     {func(o *options) { o.modelName = "anthropic:claude-haiku-4-5" }, "ANTHROPIC_API_KEY"},
		"no OpenAI key":        {func(o *options) { o.modelName = "openai:gpt-5-mini" }, "OPENAI_API_KEY"},
		"no base URL":          {func(o *options) { o.modelName = "openai-compatible:llama3.2" }, "--base-url"},
		"a base URL too many":  {func(o *options) { o.baseURL = "http://localhost:1/v1" }, "--base-url goes with"},
		"another question":     {func(o *options) { o.question = "What is a lock?" }, "I am a script"},
	} {
		t.Run(name, func(t *testing.T) {
			o := asked(t)
			tc.change(&o)
			if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want %q", err, tc.want)
			}
		})
	}
}

func TestModelsAreFoundByName(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "key")
	t.Setenv("OPENAI_API_KEY", "key")
	for name, base := range map[string]string{"script": "", "anthropic:a": "", "openai:b": "", "openai-compatible:llama3.2:1b": "http://localhost:11434/v1"} {
		m, err := modelOf(name, base)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, want, _ := strings.Cut(name, ":")
		if got, _ := m.(model.Defaulter).Defaults(); want != "" && got != want {
			t.Errorf("%s asks the model %q", name, got)
		}
	}
}

func TestTheDataFolderIsInTheUsersCacheUnlessItIsNamed(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	dir, err := dataFolder("", "work")
	if info, statErr := os.Stat(dir); err != nil || statErr != nil || !strings.HasPrefix(dir, home) || info.Mode().Perm() != 0o700 {
		t.Errorf("%s, %v, %v", dir, err, statErr)
	}
}

// stopper ends the work when a source has been read.
type stopper struct {
	bytes.Buffer
	stop context.CancelFunc
}

func (s *stopper) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(`"source"`)) {
		s.stop()
	}
	return s.Buffer.Write(b)
}

func TestWorkThatWasStoppedGoesOn(t *testing.T) {
	o := asked(t)
	o.sources = []string{t.TempDir()}
	write(t, o.sources[0], "a.txt", "The moon moves the sea.")
	write(t, o.sources[0], "b.txt", "Nothing of note here.")
	o = o.scripted(t, twoFiles+`
when "source":"(a.txt)"
> call read_file {"path":"{{1}}"}
---
{"source":"a.txt","claims":[{"text":"True.","quote":"The moon moves the sea."}]}
when "source":"(b.txt)"
> wait 1s
> call read_file {"path":"{{1}}"}
---
{"source":"b.txt","claims":[]}`)
	o.jsonEvents = true
	ctx, stop := context.WithCancel(t.Context())
	if err := research(ctx, o, &stopper{stop: stop}); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Fatalf("the error is %v", err)
	}
	// The call of the model that was under way is made again.
	events, err := run(t, o)
	if cost := events[len(events)-1].Cost; err != nil || cost == nil || cost.ModelCalls-cost.UncertainCalls != 4+2+2 {
		t.Errorf("the work ended with %+v, %v", events[len(events)-1], err)
	}
}

func TestADataFolderBelongsToOneQuestionAtATime(t *testing.T) {
	o := asked(t)
	write(t, filepath.Dir(o.out), "report.md", "an older report")
	if _, err := run(t, o); err == nil {
		t.Fatal("the report was written unasked")
	}
	o.question += " Really?"
	if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), "another question") {
		t.Errorf("the error is %v", err)
	}
}

func TestAReportCitesSourcesWithFindingsAndThoseAlone(t *testing.T) {
	found := reading{findings: findings{Claims: []claim{{"It is so.", "so it is"}}}}
	read := []outcome{{Source: "a.txt", Status: subagent.Completed}, {Source: "b.txt", Status: subagent.Completed, reading: found}}
	for answer, want := range map[string]string{
		"So [b.txt].":            "",
		"So [ b.txt ], as said.": "",
		"So.":                    "names no source",
		"So [a.txt] [b.txt].":    "[a.txt] is not",
		"So [c.txt], [b.txt].":   "[c.txt] is not",
		"So [1], [b.txt].":       "[1] is not",
		"So [b.txt, a.txt].":     "[b.txt, a.txt] is not",
		"So [b.txt](http://x.y)": "link",
	} {
		_, err := render(reportArgs{"T", answer}, job{}, read)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", answer, err, want)
		}
	}
	if _, err := render(reportArgs{"T", "Nobody knows."}, job{}, read[:1]); err != nil {
		t.Errorf("nothing was found, and nothing may be said about it: %v", err)
	}
}

func TestAReportTellsOfEachSourceOnceAndOfItsBetterReading(t *testing.T) {
	read := []outcome{
		{Source: "b", Status: subagent.Completed}, {Source: "b", Status: subagent.Error, Reason: "dead"},
		{Source: "a", Status: subagent.Error, Reason: "dead"}, {Source: "x", Status: subagent.Completed},
	}
	var got []string
	for _, o := range inOrder([]string{"a", "b", "c"}, read) {
		got = append(got, o.Source+": "+string(o.Status)+o.Reason)
	}
	if want := []string{"a: errordead", "b: completed", "c: no reader was sent"}; !cmp.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestTheSourcesOfAFolderAreItsTexts(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.txt", "a.MD", "deep/c.html", "d.pdf", ".hidden.txt", ".git/e.txt", "LICENSE"} {
		write(t, dir, name, "text")
	}
	if err := os.Symlink("b.txt", filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	folder, got, err := sourcesOf(options{sources: []string{" https://z.example/x", dir, "https://a.example/", "https://z.example/x"}, allow: []string{"*.example"}})
	want := []string{"a.MD", "b.txt", "deep/c.html", "https://a.example/", "https://z.example/x"}
	if err != nil || folder != dir || !cmp.Equal(got, want) {
		t.Errorf("got %q in %s, %v", got, folder, err)
	}
}
