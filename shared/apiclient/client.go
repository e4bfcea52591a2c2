// Package apiclient is the Go client of Errand's HTTP API. It uses the standard library
// only; the values are those of package api.
//
// What the server refuses is an *api.Problem, a server that cannot be reached an
// *UnreachableError. The client repeats nothing by itself, but Follow, which goes on
// from the last event after a broken connection.
package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/errand-dev/errand/shared/api"
)

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	endpoint string
	token    string
	http     *http.Client
}

// New returns a client of the server at endpoint, an http or https URL. token is sent
// as a bearer token unless it is empty. The HTTP client must not have a timeout shorter
// than api.MaxWait, nor any if Follow is used.
func New(endpoint, token string, h *http.Client) (*Client, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("endpoint %q is no http or https URL", endpoint)
	}
	return &Client{endpoint: strings.TrimRight(endpoint, "/"), token: token, http: h}, nil
}

// UnreachableError says that no answer came from the server.
type UnreachableError struct {
	Endpoint string
	Err      error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no answer from %s: %v", e.Endpoint, e.Err)
}
func (e *UnreachableError) Unwrap() error { return e.Err }

// Health asks whether the server is alive.
func (c *Client) Health(ctx context.Context) (api.Health, error) {
	return do[api.Health](ctx, c, request{method: "GET", path: "/healthz"})
}

// Send asks for a turn. key, if not empty, makes it repeatable: the same key is the
// same turn.
func (c *Client) Send(ctx context.Context, conversation string, t api.TurnRequest, key string) (api.Turn, error) {
	return do[api.Turn](ctx, c, request{method: "POST", path: path(conversation, "turns"), body: t, key: key})
}

// Turn reads one turn.
func (c *Client) Turn(ctx context.Context, conversation, id string) (api.Turn, error) {
	return do[api.Turn](ctx, c, request{method: "GET", path: path(conversation, "turns", id)})
}

// Conversation reads a conversation.
func (c *Client) Conversation(ctx context.Context, conversation string) (api.Conversation, error) {
	return do[api.Conversation](ctx, c, request{method: "GET", path: path(conversation)})
}

// Clear cancels what runs in the conversation, tells nobody, and deletes it.
func (c *Client) Clear(ctx context.Context, conversation string) error {
	_, err := do[struct{}](ctx, c, request{method: "DELETE", path: path(conversation)})
	return err
}

// Page selects a page of a list; the zero value is the first one of the default size.
type Page struct {
	After string
	Limit int
}

func (p Page) query() url.Values {
	q := url.Values{}
	if p.After != "" {
		q.Set("after", p.After)
	}
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	return q
}

// Messages reads a page of the transcript.
func (c *Client) Messages(ctx context.Context, conversation string, p Page) (api.MessagePage, error) {
	return do[api.MessagePage](ctx, c, request{method: "GET", path: path(conversation, "messages"), query: p.query()})
}

// Dispatch asks for a background run. key, if not empty, makes it repeatable, as
// r.RunID does.
func (c *Client) Dispatch(ctx context.Context, conversation string, r api.DispatchRequest, key string) (api.Run, error) {
	return do[api.Run](ctx, c, request{method: "POST", path: path(conversation, "runs"), body: r, key: key})
}

// ActiveRuns reads a page of the runs that have not ended, oldest first.
func (c *Client) ActiveRuns(ctx context.Context, conversation string, p Page) (api.RunPage, error) {
	return c.runs(ctx, conversation, "active", p)
}

// AllRuns reads a page of all runs, in the order of their ids.
func (c *Client) AllRuns(ctx context.Context, conversation string, p Page) (api.RunPage, error) {
	return c.runs(ctx, conversation, "all", p)
}

func (c *Client) runs(ctx context.Context, conversation, status string, p Page) (api.RunPage, error) {
	q := p.query()
	q.Set("status", status)
	return do[api.RunPage](ctx, c, request{method: "GET", path: path(conversation, "runs"), query: q})
}

// Run reads one run.
func (c *Client) Run(ctx context.Context, conversation, id string) (api.Run, error) {
	return do[api.Run](ctx, c, request{method: "GET", path: path(conversation, "runs", id)})
}

// Cancel cancels a run and its descendants. A run that has ended stays as it is.
func (c *Client) Cancel(ctx context.Context, conversation, id, reason string) (api.Run, error) {
	return do[api.Run](ctx, c, request{method: "POST", path: path(conversation, "runs", id, "cancel"), body: api.CancelRequest{Reason: reason}})
}

// FollowUp puts a message into a running run.
func (c *Client) FollowUp(ctx context.Context, conversation, id, text string) error {
	_, err := do[struct{}](ctx, c, request{method: "POST", path: path(conversation, "runs", id, "messages"), body: api.FollowUpRequest{Text: text}})
	return err
}

// Redrive delivers a dead-lettered slot again; an empty slot means whichever is dead.
func (c *Client) Redrive(ctx context.Context, conversation, id, slot string) (api.Run, error) {
	return do[api.Run](ctx, c, request{method: "POST", path: path(conversation, "runs", id, "redrive"), body: api.RedriveRequest{Slot: slot}})
}

// Replay dispatches a run that repeats one that has ended. The same key is the same replay;
// without one it is a new run each time.
func (c *Client) Replay(ctx context.Context, conversation, id, key string) (api.Run, error) {
	return do[api.Run](ctx, c, request{method: "POST", path: path(conversation, "runs", id, "replay"), key: key})
}

// Why asks how a run came to where it is.
func (c *Client) Why(ctx context.Context, conversation, id string) (api.Why, error) {
	return do[api.Why](ctx, c, request{method: "GET", path: path(conversation, "runs", id, "why")})
}

// RunCost tells what a run and all below it have cost.
func (c *Client) RunCost(ctx context.Context, conversation, id string) (api.RunCost, error) {
	return do[api.RunCost](ctx, c, request{method: "GET", path: path(conversation, "runs", id, "cost")})
}

// Audit asks what is not as it should be in the conversation.
func (c *Client) Audit(ctx context.Context, conversation string) (api.Audit, error) {
	return do[api.Audit](ctx, c, request{method: "GET", path: path(conversation, "audit")})
}

// Repair has the tick and the wake sent that may be lost, and writes nothing.
func (c *Client) Repair(ctx context.Context, conversation string) (api.Repair, error) {
	return do[api.Repair](ctx, c, request{method: "POST", path: path(conversation, "repair")})
}

// EventQuery selects events of a conversation, or of one run of it.
type EventQuery struct {
	Conversation, Run string
	// After is the number of the last event that is known.
	After int64
	Limit int
	// Wait is how long the server waits for the next event, at most api.MaxWait.
	Wait time.Duration
}

func (q EventQuery) request() request {
	elements := []string{q.Conversation, "events"}
	if q.Run != "" {
		elements = []string{q.Conversation, "runs", q.Run, "events"}
	}
	values := Page{Limit: q.Limit}.query()
	values.Set("after", strconv.FormatInt(q.After, 10))
	if q.Wait > 0 {
		values.Set("wait_ms", strconv.FormatInt(q.Wait.Milliseconds(), 10))
	}
	return request{method: "GET", path: path(elements...), query: values}
}

// Events reads a page of events, waiting for the next one if asked to.
func (c *Client) Events(ctx context.Context, q EventQuery) (api.EventPage, error) {
	return do[api.EventPage](ctx, c, q.request())
}

type request struct {
	method, path string
	query        url.Values
	body         any
	key, accept  string
}

func path(conversation ...string) string {
	escaped := make([]string, len(conversation))
	for i, element := range conversation {
		escaped[i] = url.PathEscape(element)
	}
	return "/v1/conversations/" + strings.Join(escaped, "/")
}

// do sends the request and decodes the answer.
func do[T any](ctx context.Context, c *Client, r request) (answer T, err error) {
	response, err := c.send(ctx, r)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer, c.unreachable(ctx, err)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return answer, nil
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, fmt.Errorf("decoding the answer of %s %s: %w", r.method, r.path, err)
	}
	return answer, nil
}

// send returns a response with a status of success; its body must be closed.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		encoded, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("encoding the request: %w", err)
		}
		body = bytes.NewReader(encoded)
	}
	target := c.endpoint + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	for name, value := range map[string]string{"Accept": r.accept, "Idempotency-Key": quote(r.key), "Authorization": bearer(c.token)} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if response.StatusCode >= 300 {
		defer response.Body.Close()
		return nil, problemOf(response)
	}
	return response, nil
}

func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return &UnreachableError{Endpoint: c.endpoint, Err: err}
}

// maxProblem is how much of a refusal is read.
const maxProblem = 64 << 10

// problemOf reads what the server refuses with. Something that stands before it, such as
// a gateway, may answer in its own words.
func problemOf(response *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem))
	p := &api.Problem{}
	if json.Unmarshal(body, p) != nil || p.Status == 0 {
		p = &api.Problem{Title: response.Status, Detail: strings.TrimSpace(string(body))}
	}
	p.Status = response.StatusCode
	return p
}

func bearer(token string) string {
	if token == "" {
		return ""
	}
	return "Bearer " + token
}

// quote writes a key as a quoted string (RFC 8941).
func quote(key string) string {
	if key == "" {
		return ""
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}
