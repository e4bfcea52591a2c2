package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/errand-dev/errand/shared/api"
)

type sendFlags struct {
	clientFlags
	agent, key string
	noWait     bool
	timeout    time.Duration
}

func newSend() *cobra.Command {
	f := sendFlags{}
	cmd := &cobra.Command{
		Use:   "send MESSAGE",
		Short: "Say something to a conversation's agent and wait for its reply",
		Long: `Sends one turn and waits for the agent's reply. Turns of a conversation are answered
one after the other, in the order in which they were accepted. A turn that asks people
is waited for too; what it asks, and how to answer, is noted on standard error.`,
		Example: `  errand send 'dispatch lab-sleep {"ms":2000}'
  errand send -c other --no-wait 'say hello'`,
		Args: oneArg("MESSAGE"),
		RunE: f.client(func(ctx context.Context, s session, args []string) error { return send(ctx, s, f, args[0]) }),
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.agent, "agent", "", "the agent of a new conversation")
	flags.StringVar(&f.key, "key", "", "Idempotency-Key: the same key is the same turn (default a fresh one)")
	flags.BoolVar(&f.noWait, "no-wait", false, "return when the turn is accepted")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to wait for the reply; the turn goes on without us")
	return cmd
}

func send(ctx context.Context, s session, f sendFlags, message string) error {
	key := f.key
	if key == "" {
		key = rand.Text()
	}
	turn, err := s.Send(ctx, s.conversation, api.TurnRequest{Message: message, Agent: f.agent}, key)
	if err != nil {
		return err
	}
	if !f.noWait {
		ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("no reply within %v; the turn goes on, see: errand show -c %s %s", f.timeout, s.conversation, turn.ID))
		defer cancel()
		if turn, err = s.awaitTurn(ctx, turn); err != nil {
			return err
		}
	}
	if err := s.print(turn, func() error { return s.printTurn(turn) }); err != nil {
		return err
	}
	if turn.Status == "error" || turn.Status == "aborted" {
		return fmt.Errorf("the turn ended as %s: %s", turn.Status, plain(turn.Error))
	}
	return nil
}

func (s session) printTurn(t api.Turn) error {
	switch {
	case !t.Done():
		return s.printf("accepted as turn %s\n", t.ID)
	case t.Reply == "":
		return nil
	}
	return s.printf("%s\n", plain(t.Reply))
}

// awaitTurn returns the turn when it has ended. What it asks people meanwhile is noted, once.
func (s session) awaitTurn(ctx context.Context, turn api.Turn) (api.Turn, error) {
	noted := map[string]bool{}
	for wait := firstLook; ; wait = min(2*wait, lookEvery) {
		fresh, err := s.Turn(ctx, s.conversation, turn.ID)
		if err != nil || fresh.Done() {
			return fresh, err
		}
		for _, a := range fresh.Approvals {
			if !noted[a.ID] {
				noted[a.ID] = true
				fmt.Fprintf(s.notes, "It asks: %s %s\nAnswer with: %s (or with --deny)\n", plain(a.Title), oneLine(string(a.Detail), noteWidth), s.answerWith(turn.ID, a.ID))
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return turn, context.Cause(ctx)
		}
	}
}

const (
	firstLook = 20 * time.Millisecond
	lookEvery = time.Second
	noteWidth = 400
)
