package apiclient

import (
	"context"
	"net/url"

	"github.com/errand-dev/errand/shared/api"
)

// CreateSchedule asks for a schedule. key, if not empty, makes it repeatable.
func (c *Client) CreateSchedule(ctx context.Context, conversation string, s api.ScheduleRequest, key string) (api.Schedule, error) {
	return do[api.Schedule](ctx, c, request{method: "POST", path: path(conversation, "schedules"), body: s, key: key})
}

// Schedules reads every schedule of a conversation.
func (c *Client) Schedules(ctx context.Context, conversation string) ([]api.Schedule, error) {
	list, err := do[api.ScheduleList](ctx, c, request{method: "GET", path: path(conversation, "schedules")})
	return list.Schedules, err
}

// Schedule reads one schedule.
func (c *Client) Schedule(ctx context.Context, conversation, id string) (api.Schedule, error) {
	return do[api.Schedule](ctx, c, request{method: "GET", path: path(conversation, "schedules", id)})
}

// ChangeSchedule changes a schedule.
func (c *Client) ChangeSchedule(ctx context.Context, conversation, id string, to api.ScheduleChange) (api.Schedule, error) {
	return do[api.Schedule](ctx, c, request{method: "PATCH", path: path(conversation, "schedules", id), body: to})
}

// DeleteSchedule deletes a schedule.
func (c *Client) DeleteSchedule(ctx context.Context, conversation, id string) error {
	_, err := do[struct{}](ctx, c, request{method: "DELETE", path: path(conversation, "schedules", id)})
	return err
}

// AgentControl reads what operators have set for an agent.
func (c *Client) AgentControl(ctx context.Context, agent string) (api.AgentControl, error) {
	return do[api.AgentControl](ctx, c, request{method: "GET", path: controlPath(agent)})
}

// SetAgentControl sets it, whole.
func (c *Client) SetAgentControl(ctx context.Context, agent string, to api.AgentControlRequest) (api.AgentControl, error) {
	return do[api.AgentControl](ctx, c, request{method: "PUT", path: controlPath(agent), body: to})
}

func controlPath(agent string) string { return "/v1/agents/" + url.PathEscape(agent) + "/control" }
