package ingress

import (
	"net/http"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/audit"
)

// getAudit reads every row of the conversation but its log: for an operator, not for a
// page that is shown often.
func getAudit(h *handler, c *call) error {
	if err := h.hasRows(c.r.Context(), c.owner); err != nil {
		return err
	}
	auditor := audit.Auditor{Ledger: h.Ledger}
	report, err := auditor.Audit(c.r.Context(), c.owner)
	if err != nil {
		return err
	}
	view := api.Audit{
		Conversation: c.owner.Conversation, Findings: make([]api.Finding, len(report.Findings)),
		Runs: report.Runs, Turns: report.Turns, Messages: report.Messages,
	}
	for i, f := range report.Findings {
		view.Findings[i] = api.Finding{
			Kind: string(f.Kind), RunID: f.Run, Slot: string(f.Slot), TurnID: f.Turn, Problem: f.Problem, Remedy: string(f.Remedy),
		}
	}
	h.ok(c, http.StatusOK, view)
	return nil
}

func postRepair(h *handler, c *call) error {
	if err := h.hasRows(c.r.Context(), c.owner); err != nil {
		return err
	}
	auditor := audit.Auditor{Ledger: h.Ledger}
	sent, err := auditor.Repair(c.r.Context(), c.owner)
	if err != nil {
		return err
	}
	h.Log.InfoContext(c.r.Context(), "conversation repaired", "conversation", c.owner.Conversation, "tick", sent.Tick, "turn_id", sent.Turn, "timers", sent.Timers)
	h.ok(c, http.StatusAccepted, api.Repair{Tick: sent.Tick, TurnID: sent.Turn, Timers: sent.Timers})
	return nil
}
