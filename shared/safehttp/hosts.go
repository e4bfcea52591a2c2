package safehttp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// hosts are the names that may be asked for.
type hosts struct {
	any      bool
	exact    []string
	suffixes []string // with their dot
}

func newHosts(o Options) (hosts, error) {
	h := hosts{any: o.AnyPublicHost}
	switch {
	case h.any && len(o.Hosts) > 0:
		return h, errors.New("safehttp: Options has both Hosts and AnyPublicHost; set one of them")
	case !h.any && len(o.Hosts) == 0:
		return h, errors.New("safehttp: Options allows nothing; set Hosts, or AnyPublicHost")
	}
	for _, host := range o.Hosts {
		name := canonical(host)
		suffix, below := strings.CutPrefix(name, "*.")
		_, err := netip.ParseAddr(name)
		switch {
		case err == nil:
			h.exact = append(h.exact, name)
		case !plainName(suffix):
			return h, fmt.Errorf("safehttp: Options.Hosts: %q is no host; write a name like api.example.com or *.example.com, or an address, without scheme and port", host)
		case below:
			h.suffixes = append(h.suffixes, "."+suffix)
		default:
			h.exact = append(h.exact, name)
		}
	}
	return h, nil
}

func plainName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "*/:@?#[] ") && !strings.HasPrefix(name, ".") && !strings.Contains(name, "..")
}

// canonical is the form in which names are compared.
func canonical(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

func (h hosts) check(host string) error {
	name := canonical(host)
	below := func(suffix string) bool { return strings.HasSuffix(name, suffix) && name != suffix }
	switch {
	case name == "":
		return &RefusedError{"host", host, "there is none in the address"}
	case numeric(host):
		return &RefusedError{"host", host, "it is neither a name nor an address in its usual form, like 192.0.2.1"}
	case h.any, slices.Contains(h.exact, name), slices.ContainsFunc(h.suffixes, below):
		return nil
	}
	return &RefusedError{"host", host, "it is not among Options.Hosts; add it if it is meant"}
}

// numeric finds forms of addresses that some resolvers understand and others do not, like
// 2130706433, 0177.0.0.1, 0x7f.1 or 127.0.0.1 with a dot behind it: a name whose last part
// is a number.
func numeric(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	name := canonical(host)
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil
}
