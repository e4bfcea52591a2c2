package safehttp

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// guard judges each request, redirects among them, and bounds each response.
type guard struct {
	next         *http.Transport
	hosts        hosts
	http         bool
	ports        []uint16
	maxBytes     int64
	maxRedirects int
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.check(r.URL); err != nil {
		if r.Body != nil {
			r.Body.Close() // as a RoundTripper must
		}
		return nil, err
	}
	response, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if r.Method != http.MethodHead && response.ContentLength > g.maxBytes {
		response.Body.Close()
		return nil, &TooLargeError{g.maxBytes}
	}
	response.Body = &bounded{response.Body, g.maxBytes, g.maxBytes}
	return response, nil
}

// CloseIdleConnections is called by that of http.Client.
func (g *guard) CloseIdleConnections() { g.next.CloseIdleConnections() }

func (g *guard) check(u *url.URL) error {
	var usual uint16
	switch {
	case u.Scheme == "https":
		usual = 443
	case u.Scheme == "http" && g.http:
		usual = 80
	case u.Scheme == "http":
		return &RefusedError{"scheme", u.Scheme, "use https, or set Options.AllowHTTP"}
	default:
		return &RefusedError{"scheme", u.Scheme, "use https"}
	}
	if u.User != nil {
		return &RefusedError{"user information", "", "do not put it into the address; send credentials in a header"}
	}
	if err := g.hosts.check(u.Hostname()); err != nil {
		return err
	}
	return g.checkPort(u.Port(), usual)
}

func (g *guard) checkPort(port string, usual uint16) error {
	if port == "" {
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || uint16(n) != usual && !slices.Contains(g.ports, uint16(n)) {
		return &RefusedError{"port", port, fmt.Sprintf("use %d, or add it to Options.Ports", usual)}
	}
	return nil
}

// checkRedirect bounds redirects. Once one leads to another origin, the rest of them go
// without the headers that the caller set, also back to the first: a key is not only in
// Authorization, and who redirects must not choose what a key is used for.
func (g *guard) checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > g.maxRedirects {
		return &RefusedError{"redirect", r.URL.Host, fmt.Sprintf("it is one more than %d; raise Options.MaxRedirects, or ask for the address that it leads to", g.maxRedirects)}
	}
	first := via[0].URL
	left := func(r *http.Request) bool { return r.URL.Scheme != first.Scheme || r.URL.Host != first.Host }
	if !left(r) && !slices.ContainsFunc(via, left) {
		return nil
	}
	for name := range r.Header {
		if !harmless(name) {
			delete(r.Header, name)
		}
	}
	return nil
}

func harmless(header string) bool {
	switch header {
	case "Accept", "Accept-Encoding", "Accept-Language", "Content-Encoding", "Content-Type", "User-Agent":
		return true
	}
	return false
}

// bounded is a body that ends in an error where it becomes too large.
type bounded struct {
	io.ReadCloser
	left, max int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &TooLargeError{b.max}
	}
	// One byte more than is left tells a body that just fits from one that does not.
	if int64(len(p))-1 > b.left {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, &TooLargeError{b.max}
	}
	return n, err
}
