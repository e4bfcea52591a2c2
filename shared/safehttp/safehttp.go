// Package safehttp makes an http.Client for addresses that a model or a user chose: it
// reaches the hosts that Options allow and nothing inside the network that it runs in.
//
// A name is allowed or not before it is looked up; an address is judged when the
// connection is made, on the very address that is dialled. So it does not matter what a
// name resolves to, nor whether it resolves to something else a moment later. A redirect
// is a request like any other and is judged like one.
//
// What is refused is a RefusedError: it says what to change to allow it, and that trying
// again is of no use.
package safehttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// Options say what a client may reach. Nothing is allowed by default: Hosts or
// AnyPublicHost must be set.
type Options struct {
	// Hosts are names or addresses: "api.example.com", or "*.example.com" for all names
	// below that one, itself excluded.
	Hosts []string
	// AnyPublicHost allows every host, in place of Hosts.
	AnyPublicHost bool
	// AllowHTTP allows http besides https.
	AllowHTTP bool
	// Ports are allowed besides 443 and, with AllowHTTP, 80.
	Ports []uint16
	// AllowNets are networks that are let through although they are not public, like
	// 10.1.0.0/16. With 64:ff9b::/96 (NAT64) comes every IPv4 address that the
	// gateway translates.
	AllowNets []netip.Prefix
	// MaxBytes bounds the body of a response, decompressed: 10 MB.
	MaxBytes int64
	// Timeout bounds a request with its redirects and the reading of its response: 30 s.
	// Negative means that only the request's context bounds it, as streams want it.
	Timeout time.Duration
	// MaxRedirects is how many redirects are followed: 5; negative means none.
	MaxRedirects int
	// Resolver looks names up; nil means net.DefaultResolver.
	Resolver *net.Resolver
}

const (
	dialTimeout     = 10 * time.Second
	idleTimeout     = 90 * time.Second
	maxHeaderBytes  = 64 << 10
	azureWireServer = "168.63.129.16/32" // a public address, and the metadata of Azure's machines
)

// New makes a client. It takes no proxy from the environment and keeps no cookies. Its
// Transport is what judges requests: do not replace it.
func New(o Options) (*http.Client, error) {
	hosts, err := newHosts(o)
	if err != nil {
		return nil, err
	}
	if o.MaxBytes < 0 {
		return nil, fmt.Errorf("safehttp: Options.MaxBytes is %d; give a bound, or zero for the default", o.MaxBytes)
	}
	addresses, err := guardian(o.AllowNets)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{
		Timeout:  dialTimeout,
		Resolver: o.Resolver,
		ControlContext: func(_ context.Context, network, address string, c syscall.RawConn) error {
			if err := addresses.Safe(network, address, c); err != nil {
				return refusedAddress(address, err)
			}
			return nil
		},
	}
	g := &guard{
		next: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSHandshakeTimeout:    dialTimeout,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxHeaderBytes,
			ForceAttemptHTTP2:      true,
		},
		hosts: hosts, http: o.AllowHTTP, ports: o.Ports,
		maxBytes: cmp.Or(o.MaxBytes, 10<<20), maxRedirects: max(cmp.Or(o.MaxRedirects, 5), 0),
	}
	return &http.Client{Transport: g, CheckRedirect: g.checkRedirect, Timeout: max(cmp.Or(o.Timeout, 30*time.Second), 0)}, nil
}

// guardian judges addresses: public ones, and those of the given networks.
func guardian(nets []netip.Prefix) (*ssrf.Guardian, error) {
	var v4, v6 []netip.Prefix
	for _, n := range nets {
		switch {
		case !n.IsValid() || n.Addr().Is4In6():
			return nil, fmt.Errorf("safehttp: Options.AllowNets: %q is no network; write one like 10.1.0.0/16 or fd12:3456::/32", n)
		case n.Addr().Is4():
			v4 = append(v4, n)
		default:
			v6 = append(v6, n)
		}
	}
	return ssrf.New(ssrf.WithAnyPort(), // the guard has judged the port
		ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...),
		ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix(azureWireServer))), nil
}

// RefusedError is a request, or a redirect, that was not made. Trying again is of no use.
type RefusedError struct {
	// What was refused: "scheme", "user information", "host", "port", "address" or "redirect".
	What string
	// Value is the refused one, empty for user information.
	Value string
	// Allow says why, and what to change to have it.
	Allow string
}

func (e *RefusedError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("safehttp: %s refused: %s", e.What, e.Allow)
	}
	return fmt.Sprintf("safehttp: %s %q refused: %s", e.What, e.Value, e.Allow)
}

func refusedAddress(address string, err error) error {
	if errors.Is(err, ssrf.ErrProhibitedIP) {
		return &RefusedError{"address", address, "it is not public; if it is meant, add its network to Options.AllowNets"}
	}
	return &RefusedError{"address", address, err.Error()}
}

// TooLargeError is returned by reading a response beyond Options.MaxBytes, or in place
// of a response that says so itself.
type TooLargeError struct{ MaxBytes int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("safehttp: the response has more than %d bytes; ask for less, or raise Options.MaxBytes", e.MaxBytes)
}
