package mcptools

import (
	"net/url"
	"strings"
)

// addressed reports whether the text is one that a server can be reached by.
func addressed(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
}

// withoutURL leaves of the server's URL the host in what an error says: errors are logged and
// kept. net/http's error can be a mere text by the time that the SDK hands it on.
func (o Options) withoutURL(err error) error {
	u, parsed := url.Parse(o.URL)
	if err == nil || parsed != nil || u.Host == "" {
		return err
	}
	return hidden{err, strings.ReplaceAll(err.Error(), u.Host+u.RequestURI(), u.Host)}
}

// hidden is an error that says less.
type hidden struct {
	error
	text string
}

func (h hidden) Error() string { return h.text }
func (h hidden) Unwrap() error { return h.error }
