package ingress

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/callback"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

const callbackPath = "/v1/callbacks/{token}"

// maxToken is more than any token has that we make: four ids and their names.
const maxToken = 1024

// callbackRoutes need no credential but the token in their path. It is never logged, nor
// does an answer show it.
func callbackRoutes() []route {
	routes := []route{
		{method: "POST", path: callbackPath, name: "endCallback", summary: "End the wait for a callback; its token is the credential", handle: postCallback,
			request: api.CallbackRequest{}, status: http.StatusAccepted, problems: body(codeNotFound, codeAlreadyEnded, codeAlreadyAnswered)},
		{method: "POST", path: callbackPath + "/progress", name: "reportProgress", summary: "Report progress of the run that waits for a callback", handle: postReport,
			request: api.ReportRequest{}, optional: true, status: http.StatusAccepted, problems: body(codeNotFound, codeAlreadyEnded, codeInvalidID)},
	}
	for i := range routes {
		routes[i].problems = append(routes[i].problems, codeInvalidParameter)
	}
	return routes
}

// errAlreadyEnded is agent.ErrRunEnded for whoever knows of no run.
var errAlreadyEnded = errors.New("what waited for this callback has ended")

func callbackFault(err error) error {
	if errors.Is(err, agent.ErrRunEnded) {
		return errAlreadyEnded
	}
	return err
}

// target returns what the token in the path is for. It is looked at before the body is
// read: without one of ours nothing is.
func (h *handler) target(c *call) (callback.Target, error) {
	token := c.r.PathValue("token")
	if len(token) > maxToken {
		return callback.Target{}, callback.ErrToken
	}
	return h.Callbacks.Open(c.r.Context(), token)
}

func postCallback(h *handler, c *call) error {
	target, err := h.target(c)
	if err != nil {
		return err
	}
	result, err := c.callbackResult()
	if err != nil {
		return err
	}
	if err := h.Control.Finish(c.r.Context(), target, result); err != nil {
		return callbackFault(err)
	}
	h.Log.InfoContext(c.r.Context(), "callback taken", "run_id", target.Run, "turn_id", target.Turn, "failed", result.Error != "")
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

func (c *call) callbackResult() (agent.CallbackResult, error) {
	var req api.CallbackRequest
	var result agent.CallbackResult
	if err := c.body(&req, false); err != nil {
		return result, err
	}
	switch {
	case (req.Output == nil) == (req.Error == nil):
		return result, fmt.Errorf("%w: give either output or error", errInvalidBody)
	case req.Error == nil:
		result.Output = req.Output
	case *req.Error == "":
		return result, atFault("error", fmt.Errorf("%w: the error is empty; say what went wrong", errInvalidBody))
	default:
		result.Error = *req.Error
	}
	// As it is stored: it must fit into one item.
	kept, err := json.Marshal(result)
	if err != nil {
		return result, fmt.Errorf("encoding a callback: %w", err)
	}
	if len(kept) > api.MaxCallback {
		return result, fmt.Errorf("%w: it takes %d bytes of JSON, at most %d are kept; store it elsewhere and send where", errTooLarge, len(kept), api.MaxCallback)
	}
	return result, nil
}

func postReport(h *handler, c *call) error {
	target, err := h.target(c)
	if err != nil {
		return err
	}
	var req api.ReportRequest
	if err := c.body(&req, true); err != nil {
		return err
	}
	if err := checkReport(req); err != nil {
		return err
	}
	now := subagent.At(h.Ledger.Now())
	var progress *subagent.Progress
	if req.Fraction != nil || req.Message != "" || req.Phase != "" {
		progress = &subagent.Progress{Fraction: req.Fraction, Message: req.Message, Phase: req.Phase, At: now}
	}
	shown := agent.Progress{Fraction: req.Fraction, Message: req.Message, Phase: req.Phase, Data: req.Data}
	var milestone *ledger.Milestone
	if req.Milestone != "" {
		milestone, shown.Data = &ledger.Milestone{Name: req.Milestone, At: now, Data: req.Data}, nil
	}
	if err := h.Control.Report(c.r.Context(), target, progress, milestone); err != nil {
		return callbackFault(err)
	}
	if h.Hub != nil && (progress != nil || shown.Data != nil) {
		h.Hub.Publish(target.Owner, h.Ledger.NewEvent("run.progress", target.Run, "", shown))
	}
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

func checkReport(r api.ReportRequest) error {
	if r.Fraction != nil && (*r.Fraction < 0 || *r.Fraction > 1) {
		return atFault("fraction", fmt.Errorf("%w: the fraction is %v; it must lie between 0 and 1", errInvalidBody, *r.Fraction))
	}
	if r.Milestone != "" {
		if err := subagent.CheckID(r.Milestone); err != nil {
			return atFault("milestone", err)
		}
	}
	data := api.MaxReportData
	if r.Milestone != "" {
		data = api.MaxMilestoneData
	}
	for _, text := range []struct {
		field     string
		has, most int
	}{
		{"message", len(r.Message), api.MaxReportMessage},
		{"phase", len(r.Phase), api.MaxReportPhase},
		{"data", len(r.Data), data},
	} {
		if text.has > text.most {
			return atFault(text.field, fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", errTooLarge, text.field, text.has, text.most))
		}
	}
	return nil
}
