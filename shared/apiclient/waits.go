package apiclient

import (
	"context"
	"net/url"

	"github.com/errand-dev/errand/shared/api"
)

// DecideRun answers what a run asks under the id. The same decision again is no error.
func (c *Client) DecideRun(ctx context.Context, conversation, run, id string, d api.DecisionRequest) error {
	return c.decide(ctx, path(conversation, "runs", run, "approvals", id), d)
}

// DecideTurn answers what a turn asks under the id. The same decision again is no error.
func (c *Client) DecideTurn(ctx context.Context, conversation, turn, id string, d api.DecisionRequest) error {
	return c.decide(ctx, path(conversation, "turns", turn, "approvals", id), d)
}

func (c *Client) decide(ctx context.Context, path string, d api.DecisionRequest) error {
	_, err := do[struct{}](ctx, c, request{method: "POST", path: path, body: d})
	return err
}

// Callback ends the wait that the token is for. It needs no other credential.
func (c *Client) Callback(ctx context.Context, token string, r api.CallbackRequest) error {
	return c.callBack(ctx, url.PathEscape(token), r)
}

// Report reports progress of the run that waits for the callback.
func (c *Client) Report(ctx context.Context, token string, r api.ReportRequest) error {
	return c.callBack(ctx, url.PathEscape(token)+"/progress", r)
}

// callBack reads no answer: there is none, and an error about one would show the token.
func (c *Client) callBack(ctx context.Context, path string, body any) error {
	response, err := c.send(ctx, request{method: "POST", path: "/v1/callbacks/" + path, body: body})
	if err != nil {
		return err
	}
	// What was acknowledged stays so, however the connection ends.
	_ = response.Body.Close()
	return nil
}
