package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/errand-dev/errand/shared/subagent"
)

// ParseDetached reads the "detached" object of the API and of chat commands:
//
//	{"on_finish":"handler", "notify":true or {"source":"…"}, "max_budget_ms":N,
//	 "no_progress_budget_ms":N, "max_tokens":N, "max_usd":1.50,
//	 "on_milestones":["name"] or {"names":[…],"mode":"narrate" or "react"}}
//
// No object at all means {"notify":true}; {} is fire and forget. A no_progress_budget_ms
// of 0 switches that bound off. Errors wrap subagent.ErrInvalidBudget or ErrDetached.
func ParseDetached(raw json.RawMessage) (subagent.Notice, subagent.Budget, error) {
	var notice subagent.Notice
	var budget subagent.Budget
	if len(bytes.TrimSpace(raw)) == 0 {
		notice.Message = true
		return notice, budget, nil
	}
	var d struct {
		OnFinish    string          `json:"on_finish"`
		Notify      json.RawMessage `json:"notify"`
		MaxBudget   *int64          `json:"max_budget_ms"`
		NoProgress  *int64          `json:"no_progress_budget_ms"`
		MaxTokens   *int64          `json:"max_tokens"`
		MaxUSD      json.RawMessage `json:"max_usd"`
		OnMilestone json.RawMessage `json:"on_milestones"`
	}
	if err := strict(raw, &d); err != nil {
		return notice, budget, err
	}
	notice.Handler = d.OnFinish
	if err := parseNotify(d.Notify, &notice); err != nil {
		return notice, budget, err
	}
	if err := parseMilestones(d.OnMilestone, &notice); err != nil {
		return notice, budget, err
	}
	var err error
	if budget.Max, err = milliseconds("max_budget_ms", d.MaxBudget, 1); err != nil {
		return notice, budget, err
	}
	if budget.NoProgress, err = milliseconds("no_progress_budget_ms", d.NoProgress, 0); err != nil {
		return notice, budget, err
	}
	return notice, budget, parseSpend(d.MaxTokens, d.MaxUSD, &budget)
}

// parseSpend reads the bounds of what is spent. Both are positive: a run that must spend
// nothing needs no model.
func parseSpend(tokens *int64, usd json.RawMessage, b *subagent.Budget) error {
	if tokens != nil {
		if *tokens < 1 {
			return fmt.Errorf("%w: max_tokens must be at least 1", subagent.ErrInvalidBudget)
		}
		b.MaxTokens = *tokens
	}
	if len(usd) == 0 || string(usd) == "null" {
		return nil
	}
	if err := json.Unmarshal(usd, &b.MaxCost); err != nil || b.MaxCost == 0 {
		return fmt.Errorf("%w: max_usd must be a positive number of US dollars, such as 1.50, with at most 9 digits behind the point", subagent.ErrInvalidBudget)
	}
	return nil
}

// ErrDetached is wrapped by every refusal of a detached object but those of its budgets.
var ErrDetached = errors.New("invalid detached options")

func strict(raw json.RawMessage, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrDetached, err)
	}
	return nil
}

func parseNotify(raw json.RawMessage, n *subagent.Notice) error {
	switch string(raw) {
	case "", "null", "false":
		return nil
	case "true":
		n.Message = true
		return nil
	}
	var notify struct {
		Source string `json:"source"`
	}
	if err := strict(raw, &notify); err != nil {
		return err
	}
	if len(notify.Source) > subagent.MaxID {
		return fmt.Errorf("%w: the source has more than %d characters", ErrDetached, subagent.MaxID)
	}
	if notify.Source == "user" || notify.Source == "agent" {
		return fmt.Errorf("%w: the source %q is reserved: a message of the system must not look like one of the conversation's own", ErrDetached, notify.Source)
	}
	n.Message, n.Source = true, notify.Source
	return nil
}

const maxMilestoneNames = 16

func parseMilestones(raw json.RawMessage, n *subagent.Notice) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] == '[' {
		if err := strict(raw, &n.Milestones); err != nil {
			return err
		}
	} else {
		var m struct {
			Names []string `json:"names"`
			Mode  string   `json:"mode"`
		}
		if err := strict(raw, &m); err != nil {
			return err
		}
		switch m.Mode {
		case "react":
			n.React = true
		case "", "narrate":
		default:
			return fmt.Errorf("%w: milestone mode %q; it is narrate or react", ErrDetached, m.Mode)
		}
		n.Milestones = m.Names
	}
	if len(n.Milestones) > maxMilestoneNames {
		return fmt.Errorf("%w: %d milestone names, at most %d are allowed", ErrDetached, len(n.Milestones), maxMilestoneNames)
	}
	for _, name := range n.Milestones {
		if err := subagent.CheckID(name); err != nil {
			return fmt.Errorf("%w: milestone %q: %w", ErrDetached, name, err)
		}
	}
	return nil
}

// milliseconds turns a field into a bound: absent is the default, zero (where it is
// allowed) switches the bound off.
func milliseconds(field string, ms *int64, least int64) (time.Duration, error) {
	switch {
	case ms == nil:
		return 0, nil
	case *ms < least || *ms > subagent.LongestBudget.Milliseconds():
		return 0, fmt.Errorf("%w: %s must lie between %d and %d", subagent.ErrInvalidBudget, field, least, subagent.LongestBudget.Milliseconds())
	case *ms == 0:
		return subagent.Unlimited, nil
	}
	return time.Duration(*ms) * time.Millisecond, nil
}
