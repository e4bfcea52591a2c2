package ingress

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/subagent"
)

// HandlerOptions are what a Handler needs besides the use cases.
type HandlerOptions struct {
	Version string
	// Authenticate returns the tenant of a request, or an error if it carries no valid
	// credential. Nil makes everybody the tenant "default".
	Authenticate func(*http.Request) (tenant string, err error)
	// Operator reports whether an authenticated request may control agents. Nil lets
	// everybody.
	Operator func(*http.Request) bool
	// Hub brings the ephemeral events. Nil, as on Lambda, switches streams off.
	Hub *Hub
}

// DefaultTenant owns everything where nobody authenticates.
const DefaultTenant = "default"

//go:embed openapi.json
var openAPI []byte

type handler struct {
	*Service
	HandlerOptions
	mux *http.ServeMux
}

// NewHandler returns the HTTP API over the use cases. Requests that read end early when
// their context ends, so a server that stops should cancel its base context: long polls
// and streams hold their connection until then. Requests that write are not broken off.
func NewHandler(s *Service, o HandlerOptions) http.Handler {
	if o.Authenticate == nil {
		o.Authenticate = func(*http.Request) (string, error) { return DefaultTenant, nil }
	}
	h := &handler{Service: s, HandlerOptions: o, mux: http.NewServeMux()}
	methods := map[string][]string{}
	for _, route := range routes() {
		h.mux.HandleFunc(route.method+" "+route.path, func(w http.ResponseWriter, r *http.Request) { h.serve(route, w, r) })
		methods[route.path] = append(methods[route.path], route.method)
	}
	for path, allowed := range methods {
		h.mux.HandleFunc(path, refuseMethod(h, allowed))
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.refuse(r.Context(), w, fmt.Errorf("%w here", ErrNotFound))
	})
	return h
}

// refuseMethod answers for a path that has other methods than the one asked for.
func refuseMethod(h *handler, allowed []string) http.HandlerFunc {
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	slices.Sort(allowed)
	allow := strings.Join(allowed, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		h.refuse(r.Context(), w, fmt.Errorf("%w; it has %s", errMethod, allow))
	}
}

// ServeHTTP implements http.Handler. A path that the mux would clean up names nothing.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for segment := range strings.SplitSeq(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/") {
		if segment == "" || segment == "." || segment == ".." {
			h.refuse(r.Context(), w, fmt.Errorf("%w here", ErrNotFound))
			return
		}
	}
	h.mux.ServeHTTP(w, r)
}

func (h *handler) serve(route route, w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		// What is begun is written and answered, also while the server stops: a write that
		// is broken off may have happened, and its client could not know.
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	c := &call{w: w, r: r}
	if err := h.prepare(route, c); err != nil {
		h.refuse(r.Context(), w, err)
		return
	}
	if err := route.handle(h, c); err != nil {
		h.refuse(r.Context(), w, err)
	}
}

// prepare authenticates the call and checks what every call of its route must have.
func (h *handler) prepare(route route, c *call) (err error) {
	if route.tenant {
		if c.owner.Tenant, err = h.tenant(c.r); err != nil {
			return err
		}
		if c.owner.Conversation, err = c.pathID("conversation"); err != nil {
			return err
		}
	}
	if route.operator {
		if _, err := h.tenant(c.r); err != nil {
			return err
		}
		if h.Operator != nil && !h.Operator(c.r) {
			return errNotOperator
		}
	}
	return c.allow(route.query...)
}

func (h *handler) tenant(r *http.Request) (string, error) {
	tenant, err := h.Authenticate(r)
	if err != nil {
		h.Log.InfoContext(r.Context(), "request not authenticated", "error", err)
		return "", errUnauthenticated
	}
	if subagent.CheckID(tenant) != nil {
		h.Log.WarnContext(r.Context(), "tenant of a credential is no id", "tenant", tenant)
		return "", errUnauthenticated
	}
	return tenant, nil
}

func (h *handler) ok(c *call, status int, value any) {
	h.write(c.r.Context(), c.w, "application/json", status, value)
}

func healthz(h *handler, c *call) error {
	h.ok(c, http.StatusOK, api.Health{Status: "ok", Version: h.Version})
	return nil
}

func openAPIDocument(_ *handler, c *call) error {
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(openAPI)
	return nil
}

func explain(h *handler, c *call) error {
	k, ok := kindOf(c.r.PathValue("code"))
	if !ok {
		return fmt.Errorf("%w: problem %q", ErrNotFound, c.r.PathValue("code"))
	}
	h.ok(c, http.StatusOK, api.Explanation{Code: k.code, Status: k.status, Title: k.title, Explanation: k.explanation})
	return nil
}
