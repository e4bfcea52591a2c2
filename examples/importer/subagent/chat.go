package importagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

// Chat is a conversation agent that needs no model: it does what a model's tools would
// do, by the words it finds in a message.
type Chat struct {
	// Folder is where a file is that is named without a folder; empty leaves that to the task.
	Folder string
	// Patience is about how long an answer waits for the columns of a file: 5 s. The
	// conversation stands still meanwhile.
	Patience time.Duration
}

// Register adds the task and the chat.
func Register(r *agent.Registry, o Options, c Chat) error {
	return errors.Join(r.AddTask(Name, Task(o)), r.AddChat(ChatName, c.Answer))
}

const help = `I import CSV files in the background. Say "import FILE", ask "how is it going?" or "what columns?", or say "cancel".`

// Answer is the agent.Chat.
func (c Chat) Answer(ctx context.Context, t *agent.Turn) (string, error) {
	if t.Kind != subagent.UserTurn {
		return hear(t), nil
	}
	message := strings.TrimSpace(t.Message)
	words := strings.ToLower(message)
	switch {
	case strings.HasPrefix(words, "import "):
		return c.dispatch(ctx, t, strings.Trim(strings.TrimSpace(message[len("import "):]), "\"'`"))
	case strings.Contains(words, "column"):
		return c.columns(ctx, t)
	case strings.Contains(words, "how is it going"), strings.Contains(words, "status"), strings.Contains(words, "progress"):
		return status(ctx, t)
	case words == "cancel":
		return cancel(ctx, t)
	}
	return help, nil
}

// hear reacts to the end of an import: the turn that the system injected.
func hear(t *agent.Turn) string {
	if problem, ok := strings.CutPrefix(t.Message, failed); ok {
		return "I am sorry, that import did not work: " + problem + " Nothing was changed in the database."
	}
	return "Good news about the " + t.Source + ": it has ended. Ask for another file whenever you like."
}

// maxSource is the longest source of a message, in bytes.
const maxSource = 100

// dispatch sends the importer on its way and waits for no more than the columns: the
// answer names them, while the import goes on. Its end is told later, in a turn of its own.
func (c Chat) dispatch(ctx context.Context, t *agent.Turn, file string) (string, error) {
	name := filepath.Base(file)
	if name == file {
		file = filepath.Join(c.Folder, file)
	}
	source := "import of " + name
	if len(source) > maxSource {
		source = strings.ToValidUTF8(source[:maxSource], "")
	}
	run, err := t.Dispatch(ctx, agent.Dispatch{
		Key: "import", Agent: Name, Input: Input{Source: file},
		Notice: subagent.Notice{Message: true, Source: source},
	})
	if _, full := errors.AsType[*agent.CapError](err); full {
		return "Not now: " + err.Error() + ".", nil
	}
	if err != nil {
		return "", agent.Retryable(err)
	}
	sent := fmt.Sprintf("I have sent the importer off with %s (run %s).", name, run.ID)
	reached, err := t.AwaitMilestone(ctx, "columns", run.ID, SchemaReady, cmp.Or(c.Patience, 5*time.Second))
	if errors.Is(err, agent.ErrTimedOut) || errors.Is(err, agent.ErrNoMilestone) {
		return sent + " Ask me anything meanwhile.", nil
	}
	if err != nil {
		return "", agent.Retryable(err)
	}
	var s Schema
	if err := json.Unmarshal(reached.Data, &s); err != nil {
		return "", fmt.Errorf("decoding the columns of run %s: %w", run.ID, err)
	}
	return fmt.Sprintf("%s It has %s: %s; I go on importing. Ask me anything meanwhile.", sent, count(int64(s.Count), "column"), s.list()), nil
}

const idle = "Nothing is being imported right now."

// status answers from the live list of runs.
func status(ctx context.Context, t *agent.Turn) (string, error) {
	runs, err := imports(ctx, t)
	if err != nil || len(runs) == 0 {
		return idle, err
	}
	lines := make([]string, len(runs))
	for i, r := range runs {
		lines[i] = fmt.Sprintf("The %s is %s", r.Source, r.Status)
		if p := r.Progress; p.Fraction != nil {
			lines[i] = fmt.Sprintf("The %s is at %.0f %%: %s, %s", r.Source, *p.Fraction*100, p.Phase, p.Message)
		}
	}
	return strings.Join(lines, ".\n") + ".", nil
}

// columns answers from the milestone of each live import.
func (c Chat) columns(ctx context.Context, t *agent.Turn) (string, error) {
	runs, err := imports(ctx, t)
	if err != nil || len(runs) == 0 {
		return idle, err
	}
	var lines []string
	for _, r := range runs {
		reached, err := t.Milestones(ctx, r.ID)
		if err != nil {
			return "", agent.Retryable(err)
		}
		lines = append(lines, columnsOf(r, reached))
	}
	return strings.Join(lines, "\n"), nil
}

func columnsOf(r agent.Info, reached []agent.Milestone) string {
	for _, m := range reached {
		var s Schema
		if m.Name == SchemaReady && json.Unmarshal(m.Data, &s) == nil {
			return fmt.Sprintf("%s has %s: %s.", s.Source, count(int64(s.Count), "column"), s.list())
		}
	}
	return "I do not know the columns yet (" + r.Source + ")."
}

func cancel(ctx context.Context, t *agent.Turn) (string, error) {
	runs, err := imports(ctx, t)
	if err != nil || len(runs) == 0 {
		return idle, err
	}
	for _, r := range runs {
		if _, err := t.Cancel(ctx, r.ID, "the user asked for it"); err != nil {
			return "", agent.Retryable(err)
		}
	}
	return "Cancelled: " + count(int64(len(runs)), "import") + ".", nil
}

// imports lists the live runs of the importer.
func imports(ctx context.Context, t *agent.Turn) ([]agent.Info, error) {
	runs, err := t.Runs(ctx)
	if err != nil {
		return nil, agent.Retryable(err)
	}
	var found []agent.Info
	for _, r := range runs {
		if r.Agent == Name {
			found = append(found, r)
		}
	}
	return found, nil
}
