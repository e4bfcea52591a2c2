package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// JSON is an object of a vendor's wire format.
type JSON = map[string]any

// SendJSON writes a response that is whole.
func SendJSON(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err) // a test's own data
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

// Events writes server-sent events.
type Events struct{ w http.ResponseWriter }

// SendEvents begins a stream of server-sent events.
func SendEvents(w http.ResponseWriter) Events {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	return Events{w}
}

// Send writes one event; name may be empty.
func (e Events) Send(name string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err) // a test's own data
	}
	e.Raw(name, string(raw))
}

// Raw writes one event that is no JSON.
func (e Events) Raw(name, data string) {
	if name != "" {
		fmt.Fprintf(e.w, "event: %s\n", name)
	}
	fmt.Fprintf(e.w, "data: %s\n\n", data)
	_ = http.NewResponseController(e.w).Flush()
}
