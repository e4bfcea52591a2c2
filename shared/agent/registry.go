package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/errand-dev/errand/shared/subagent"
)

// Registry holds what a deployment can run, by name. Fill it before use; it is not
// changed afterwards.
type Registry struct {
	tasks    map[string]Task
	chats    map[string]Chat
	handlers map[string]Handler
	families map[string]func(rest string) (Handler, bool)

	// DefaultChat names the chat of a conversation whose first turn names none.
	DefaultChat string
	// OnStart is called before a run is executed for the first time, until it succeeds. Its
	// error ends the run, unless it is Retryable.
	OnStart Handler
	// OnFinish is called for each delivery of every run, before its handler or message:
	// for metering. It runs at least once, as a Handler does, and has most of a lease
	// (some 50 s) for it. Its error is logged, nothing else.
	OnFinish Handler
	// FormatCompletion and FormatMilestone override the text of injected messages; an
	// empty text suppresses the message, its slot is closed all the same.
	FormatCompletion func(Info) string
	FormatMilestone  func(Info, Milestone) string
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{
		tasks: map[string]Task{}, chats: map[string]Chat{}, handlers: map[string]Handler{},
		families: map[string]func(string) (Handler, bool){},
	}
}

// AddTask registers a background subagent.
func (r *Registry) AddTask(name string, t Task) error { return add(r.tasks, "task", name, t) }

// AddChat registers the agent of a conversation. The first one becomes the default.
func (r *Registry) AddChat(name string, c Chat) error {
	if err := add(r.chats, "chat", name, c); err != nil {
		return err
	}
	if r.DefaultChat == "" {
		r.DefaultChat = name
	}
	return nil
}

// AddHandler registers a handler. One named "agent.name" is the agent's own: that agent
// finds it by name, before one for all.
func (r *Registry) AddHandler(name string, h Handler) error {
	return add(r.handlers, "handler", name, h)
}

// AddHandlers registers a family of handlers whose names begin with prefix.
func (r *Registry) AddHandlers(prefix string, resolve func(rest string) (Handler, bool)) error {
	return add(r.families, "handler family", prefix, resolve)
}

func add[T any](m map[string]T, kind, name string, value T) error {
	if err := subagent.CheckID(name); err != nil {
		return fmt.Errorf("registering %s %q: %w", kind, name, err)
	}
	if _, taken := m[name]; taken {
		return fmt.Errorf("registering %s %q: there is one of this name", kind, name)
	}
	m[name] = value
	return nil
}

// Task returns the task of that name.
func (r *Registry) Task(name string) (Task, bool) {
	t, ok := r.tasks[name]
	return t, ok
}

// Chat returns the chat of that name.
func (r *Registry) Chat(name string) (Chat, bool) {
	c, ok := r.chats[name]
	return c, ok
}

// Resolve returns the full name of the handler that an agent means by name: its own,
// registered as "agent.name", or else one for all.
func (r *Registry) Resolve(agent, name string) (full string, ok bool) {
	own := agent + "." + name
	if _, ok := r.handlers[own]; ok {
		return own, true
	}
	_, ok = r.Handler(name)
	return name, ok
}

// Handler returns the handler of that full name.
func (r *Registry) Handler(name string) (Handler, bool) {
	if h, ok := r.handlers[name]; ok {
		return h, true
	}
	for prefix, resolve := range r.families {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			if h, ok := resolve(rest); ok {
				return h, true
			}
		}
	}
	return nil, false
}

// Tasks lists the names of the tasks, sorted.
func (r *Registry) Tasks() []string { return names(r.tasks) }

// Chats lists the names of the chats, sorted.
func (r *Registry) Chats() []string { return names(r.chats) }

func names[T any](m map[string]T) []string {
	list := make([]string, 0, len(m))
	for name := range m {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
