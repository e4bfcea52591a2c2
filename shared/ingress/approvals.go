package ingress

import (
	"context"
	"fmt"
	"net/http"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/control"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

func approvalRoutes() []route {
	problems := func() []string { return body(codeNotFound, codeRunEnded, codeAlreadyAnswered) }
	return []route{
		{method: "POST", path: runPath + "/approvals/{approval}", name: "decideForRun", summary: "Answer what a run asks", handle: postApproval,
			request: api.DecisionRequest{}, status: http.StatusAccepted, problems: problems()},
		{method: "POST", path: turnsPath + "/{turn}/approvals/{approval}", name: "decideForTurn", summary: "Answer what a turn asks", handle: postApproval,
			request: api.DecisionRequest{}, status: http.StatusAccepted, problems: problems()},
	}
}

// postApproval answers a question of the run or turn that the path names.
func postApproval(h *handler, c *call) error {
	who := control.Asker{Owner: c.owner}
	kind, id := "run", &who.Run
	if c.r.PathValue("turn") != "" {
		kind, id = "turn", &who.Turn
	}
	var err error
	if *id, err = c.pathID(kind); err != nil {
		return err
	}
	question, err := c.pathID("approval")
	if err != nil {
		return err
	}
	var req api.DecisionRequest
	if err := c.body(&req, false); err != nil {
		return err
	}
	switch {
	case req.Approved == nil:
		return atFault("approved", fmt.Errorf("%w: approved is missing; it is true or false", errInvalidBody))
	case len(req.Note) > api.MaxNote:
		return atFault("note", fmt.Errorf("%w: the note has %d bytes, at most %d are allowed", errTooLarge, len(req.Note), api.MaxNote))
	}
	decision := agent.Decision{Approved: *req.Approved, Note: req.Note}
	if err := h.Control.Decide(c.r.Context(), who, question, decision); err != nil {
		return err
	}
	h.Log.InfoContext(c.r.Context(), "approval answered", "run_id", who.Run, "turn_id", who.Turn, "approval", question, "approved", decision.Approved)
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

// approvals returns what somebody who waits has asked, and for which an answer is still
// waited for.
func (s *Service) approvals(ctx context.Context, of ledger.Life) ([]api.Approval, error) {
	asked, err := s.Ledger.Unanswered(ctx, of)
	if err != nil {
		return nil, err
	}
	now := subagent.At(s.Ledger.Now())
	var open []api.Approval
	for _, q := range asked {
		if q.Until == 0 || q.Until > now {
			open = append(open, api.Approval{ID: q.Name, Title: q.Title, Detail: data(q.Detail), AskedAt: timeOf(q.At), Until: timeOf(q.Until)})
		}
	}
	return open, nil
}
