package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/errand-dev/errand/examples/importer"
	importagent "github.com/errand-dev/errand/examples/importer/subagent"
	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

// line is one message of the demo's user. It is said when the line before is answered
// and the main import has come so far.
type line struct {
	say  string
	from float64
}

// play is the demo's conversation in this process. It can be stopped and played again
// over the same folder: what was said is not said again, as each line has its key.
type play struct {
	owner  subagent.Owner
	stack  *serve.Stack
	script []line
	// source names the main import, the one that the script begins with.
	source string
	tell   func(demoEvent)

	// turn is the line that waits for its answer, if waiting; said counts the lines begun.
	said    int
	waiting bool
	turn    subagent.Turn
	// seq is the newest message told, first when the conversation began.
	seq   int64
	first subagent.Time

	mu sync.Mutex
	// news is progress that was not told yet, fraction how far each run has come.
	news     map[string]demoProgress
	fraction map[string]float64
	poked    chan struct{}
}

// playDemo plays the conversation to its end over the folder and sums it up.
func playDemo(ctx context.Context, dir, file string, rows int, tell func(demoEvent)) (*demoReport, error) {
	script, err := writeScript(dir, file, rows)
	if err != nil {
		return nil, err
	}
	p := &play{
		owner: subagent.Owner{Tenant: "default", Conversation: "demo"}, script: script, tell: tell,
		source: "import of " + filepath.Base(strings.TrimPrefix(script[0].say, "import ")),
		news:   map[string]demoProgress{}, fraction: map[string]float64{}, poked: make(chan struct{}, 1),
	}
	if err := p.open(ctx, dir); err != nil {
		return nil, err
	}
	working, stop := context.WithCancel(ctx)
	worked := make(chan struct{})
	go func() { defer close(worked); p.stack.Run(working) }()
	report, err := p.perform(ctx, dir)
	stop()
	<-worked
	return report, errors.Join(err, p.stack.Close())
}

// writeScript makes the files that the demo imports, and says what its user says.
func writeScript(dir, file string, rows int) ([]line, error) {
	if file != "" {
		return []line{{"import " + file, 0}, {"how is it going?", 0.2}, {"what columns does it have?", 0.4}}, nil
	}
	err := errors.Join(
		writeOnce(filepath.Join(dir, "customers.csv"), func(w io.Writer) error { return importer.Generate(w, rows, 1) }),
		writeOnce(filepath.Join(dir, "airports.csv"), func(w io.Writer) error { _, err := io.WriteString(w, importer.Airports()); return err }),
	)
	return []line{
		{"import customers.csv", 0},
		{"how is it going?", 0.15},
		{"import airports.csv", 0.3},
		{"what columns does it have?", 0.55},
		{"how is it going?", 0.75},
	}, err
}

// writeOnce writes a file unless it is there. It is there whole or not at all.
func writeOnce(path string, write func(io.Writer) error) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	err = errors.Join(write(file), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// open opens the stack with the importer and its chat.
func (p *play) open(ctx context.Context, dir string) error {
	agents := agent.NewRegistry()
	options := importagent.Options{Folder: dir}
	if err := importagent.Register(agents, options, importagent.Chat{Folder: dir}); err != nil {
		return err
	}
	agents.FormatCompletion = importagent.FormatCompletion
	var err error
	p.stack, err = serve.Open(ctx, serve.Options{Dir: dir, Agents: agents, Show: p.progress})
	return err
}

// progress notes the latest report of a run. It is called by the executor.
func (p *play) progress(_ subagent.Owner, e ledger.Event) {
	var report agent.Progress
	if json.Unmarshal(e.Data, &report) != nil || report.Fraction == nil {
		return
	}
	p.mu.Lock()
	p.fraction[e.Run] = *report.Fraction
	p.news[e.Run] = demoProgress{Run: e.Run, Fraction: *report.Fraction, Phase: report.Phase, Message: report.Message}
	p.mu.Unlock()
	select {
	case p.poked <- struct{}{}:
	default:
	}
}

// lookAgain is how long perform waits at most before it looks at the rows again.
const lookAgain = time.Second

// perform tells what happens and says the lines until everything has ended.
func (p *play) perform(ctx context.Context, dir string) (*demoReport, error) {
	for {
		changed, unwatch, _ := p.stack.Ledger.WatchEvents(p.owner)
		done, err := p.advance(ctx)
		if done || err != nil {
			unwatch()
			if err != nil {
				return nil, err
			}
			return p.report(ctx, dir)
		}
		again := time.NewTimer(lookAgain)
		select {
		case <-changed:
		case <-p.poked:
		case <-again.C:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		again.Stop()
		unwatch()
		if err != nil {
			return nil, err
		}
	}
}

// advance tells what is new, says the next line if it is time, and reports whether
// everything has ended.
func (p *play) advance(ctx context.Context) (done bool, err error) {
	runs, err := p.stack.Ledger.ListRuns(ctx, p.owner, "", 0)
	if err != nil {
		return false, err
	}
	p.tellProgress()
	if err := p.tellMessages(ctx); err != nil {
		return false, err
	}
	if p.waiting {
		if p.turn, err = p.stack.Ledger.Turn(ctx, p.owner, p.turn.ID); err != nil || !p.turn.Done() {
			return false, err
		}
		p.waiting = false
	}
	for p.said < len(p.script) && p.tooLate(runs) {
		p.said++
	}
	if p.said < len(p.script) {
		return false, p.sayNext(ctx, runs)
	}
	return p.settled(ctx, runs)
}

// tooLate reports whether the next line asks about an import that has ended.
func (p *play) tooLate(runs []subagent.Run) bool {
	if strings.HasPrefix(p.script[p.said].say, "import ") {
		return false
	}
	return slices.ContainsFunc(runs, func(r subagent.Run) bool { return r.Notice.Source == p.source && !r.Status.Live() })
}

func (p *play) sayNext(ctx context.Context, runs []subagent.Run) error {
	next := p.script[p.said]
	if p.said > 0 && !p.reached(runs, next.from) {
		return nil
	}
	turn, _, err := p.stack.Service.Accept(ctx, ingress.TurnRequest{
		Owner: p.owner, Message: next.say, Agent: importagent.ChatName,
		Key: fmt.Sprintf("demo %d %s %s", p.said, p.script[0].say, next.say),
	})
	if err != nil {
		return err
	}
	p.said++
	p.turn, p.waiting = turn, true
	return nil
}

// reached reports whether the main import has come so far, or has ended.
func (p *play) reached(runs []subagent.Run, fraction float64) bool {
	for _, r := range runs {
		if r.Notice.Source != p.source {
			continue
		}
		p.mu.Lock()
		at := p.fraction[r.ID]
		p.mu.Unlock()
		if stored := r.Progress.Fraction; stored != nil {
			at = max(at, *stored)
		}
		if r.Status.Live() && at < fraction {
			return false
		}
	}
	return true
}

// settled reports whether every run has ended and the conversation has reacted to it.
func (p *play) settled(ctx context.Context, runs []subagent.Run) (bool, error) {
	for _, r := range runs {
		if r.Outstanding() {
			return false, nil
		}
		turn, err := p.stack.Ledger.Turn(ctx, p.owner, delivery.MessageID(r.ID, r.Status))
		if err != nil || !turn.Done() {
			return false, err
		}
	}
	return true, p.tellMessages(ctx)
}

func (p *play) tellProgress() {
	p.mu.Lock()
	news := slices.SortedFunc(maps.Values(p.news), func(a, b demoProgress) int { return strings.Compare(a.Run, b.Run) })
	clear(p.news)
	p.mu.Unlock()
	for _, progress := range news {
		progress.AtMS = int64(subagent.At(p.stack.Ledger.Now()) - p.first)
		p.tell(demoEvent{Type: eventProgress, Progress: &progress})
	}
}

// tellMessages tells the messages that came in since the last call.
func (p *play) tellMessages(ctx context.Context) error {
	const page = 1000
	messages, err := p.stack.Ledger.Messages(ctx, p.owner, p.seq, page)
	if err != nil {
		return err
	}
	for _, m := range messages {
		told, err := p.message(ctx, m)
		if err != nil {
			return err
		}
		p.seq = m.Seq
		p.tell(demoEvent{Type: eventMessage, Message: &told})
	}
	return nil
}

func (p *play) message(ctx context.Context, m ledger.Message) (demoMessage, error) {
	if p.first == 0 {
		p.first = m.At
	}
	text, err := p.stack.Ledger.LoadValue(ctx, p.owner, m.Text)
	if err != nil {
		return demoMessage{}, err
	}
	told := demoMessage{
		Seq: m.Seq, AtMS: int64(m.At - p.first), Role: m.Role, Source: m.Source, Text: text, Run: m.Run,
	}
	if m.Role != "assistant" || m.Run != "" {
		return told, nil
	}
	turn, err := p.stack.Ledger.Turn(ctx, p.owner, m.Turn)
	waited := int64(m.At - turn.AcceptedAt)
	told.AnswerMS = &waited
	return told, err
}
