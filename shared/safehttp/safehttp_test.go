package safehttp_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/safehttp"
)

// client makes a client that reaches any public host by http and https.
func client(t *testing.T, change ...func(*safehttp.Options)) *http.Client {
	t.Helper()
	o := safehttp.Options{AnyPublicHost: true, AllowHTTP: true}
	for _, c := range change {
		c(&o)
	}
	c, err := safehttp.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// server is a server on this machine, and what a client needs to reach it.
func server(t *testing.T, h http.HandlerFunc) (base string, reach func(*safehttp.Options)) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL, func(o *safehttp.Options) {
		o.AllowNets = append(o.AllowNets, netip.MustParsePrefix("127.0.0.0/8"))
		o.Ports = append(o.Ports, port(t, s.URL))
	}
}

func port(t *testing.T, address string) uint16 {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(n)
}

func get(t *testing.T, c *http.Client, address string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// refused checks that err is a refusal of that kind, in words that help, and does not
// look as if another try would help.
func refused(t *testing.T, name string, err error, what string) {
	t.Helper()
	r, ok := errors.AsType[*safehttp.RefusedError](err)
	if !ok || r.What != what {
		t.Errorf("%s: got %v, want a refused %s", name, err, what)
		return
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || agent.IsRetryable(err) {
		t.Errorf("%s: looks retryable: %v", name, err)
	}
	if r.Allow == "" || !strings.Contains(err.Error(), r.Allow) {
		t.Errorf("%s: does not say how to allow it: %v", name, err)
	}
}

func TestAddressesThatAreNotPublicAreNotReached(t *testing.T) {
	c := client(t)
	for _, host := range []string{
		"127.0.0.1", "127.8.9.10", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "169.254.170.2", "168.63.129.16", "100.64.0.1", "100.100.100.200", "192.0.0.192",
		"192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "198.19.255.255", "192.88.99.1",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"[::]", "[::1]", "[fd00:ec2::254]", "[fc00::1]", "[fe80::1]", "[fe80::1%25lo]", "[ff02::1]", "[2001:db8::1]", "[3fff::1]", "[100::1]",
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:169.254.169.254]", "[::ffff:0:127.0.0.1]", "[::127.0.0.1]",
		"[64:ff9b::127.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::10.0.0.1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2001:0:7f00:1::]",
	} {
		_, err := get(t, c, "http://"+host+"/")
		refused(t, host, err, "address")
	}
}

func TestFormsOfAddressesThatOnlySomeUnderstandAreRefusedBeforeTheyAreLookedUp(t *testing.T) {
	dns := resolving(nil)
	c := client(t, func(o *safehttp.Options) { o.Resolver = dns.resolver(t) })
	for _, host := range []string{"2130706433", "0177.0.0.1", "017700000001", "0x7f.0.0.1", "0x7f000001", "127.1", "127.0.1", "127.0.0.1.", "0", "1.2.3.4.5", "foo.0x7f", "256.256.256.256", ".."} {
		_, err := get(t, c, "http://"+host+"/")
		refused(t, host, err, "host")
	}
	if dns.asked != 0 {
		t.Errorf("asked for names %d times", dns.asked)
	}
}

func TestWhatIsNotInTheOptionsIsRefused(t *testing.T) {
	hosts := func(o *safehttp.Options) {
		o.AnyPublicHost, o.Hosts = false, []string{"api.example.com", "*.Example.org", "93.184.216.34"}
		o.Resolver = resolving(nil).resolver(t)
	}
	secure := func(o *safehttp.Options) { o.AllowHTTP = false }
	for address, want := range map[string]string{
		"http://api.example.com/":                "scheme",
		"ftp://api.example.com/":                 "scheme",
		"file:///etc/passwd":                     "scheme",
		"gopher://api.example.com:70/":           "scheme",
		"https://user:pw@api.example.com/":       "user information",
		"https://api.example.com@evil.test/":     "user information",
		"https://evil.test/":                     "host",
		"https://example.com/":                   "host",
		"https://api.example.com.evil.test/":     "host",
		"https://evilapi.example.com/":           "host",
		"https://example.org/":                   "host",
		"https://evilexample.org/":               "host",
		"https://93.184.216.35/":                 "host",
		"https://evil.test/?api.example.com":     "host",
		"https://evil.test#api.example.com":      "host",
		"https://ａpi.example.com/":               "host",
		"https:///path":                          "host",
		"https://api.example.com:22/":            "port",
		"https://api.example.com:80/":            "port",
		"https://deep.down.example.org:8443/":    "port",
		"https://API.example.com.:6379/":         "port",
		"https://93.184.216.34:25/":              "port",
		"https://[::1]:443/":                     "host",
		"https://api.example.com:443@evil.test/": "user information",
	} {
		_, err := get(t, client(t, hosts, secure), address)
		refused(t, address, err, want)
	}
	for _, address := range []string{
		"https://api.example.com/", "https://API.Example.Com./", "https://api.example.com:443/", "https://a.b.example.org/",
	} {
		_, err := get(t, client(t, hosts, secure), address)
		if _, ok := errors.AsType[*net.DNSError](err); !ok {
			t.Errorf("%s: got %v; it is allowed, though nothing has this name", address, err)
		}
	}
}

func TestANameThatResolvesToThisMachineIsNotReached(t *testing.T) {
	base, reach := server(t, func(http.ResponseWriter, *http.Request) { t.Error("reached") })
	inside := map[string][][]netip.Addr{
		"v4.test.":     {{netip.MustParseAddr("127.0.0.1")}},
		"v6.test.":     {{netip.MustParseAddr("::1")}},
		"mapped.test.": {{netip.MustParseAddr("::ffff:127.0.0.1")}},
		"imds.test.":   {{netip.MustParseAddr("169.254.169.254")}, {netip.MustParseAddr("fd00:ec2::254")}},
	}
	for name := range inside {
		c := client(t, reach, func(o *safehttp.Options) { o.AllowNets, o.Resolver = nil, resolving(inside).resolver(t) })
		_, err := get(t, c, fmt.Sprintf("http://%s:%d/", strings.TrimSuffix(name, "."), port(t, base)))
		refused(t, name, err, "address")
	}
}

// 127.0.0.2 stands for a public address here: it is allowed, 127.0.0.1 is not.
func TestANameThatChangesItsAddressAfterAGoodOneIsNotFollowed(t *testing.T) {
	var reached atomic.Int64
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		w.Header().Set("Connection", "close") // so that the next request looks the name up again
	})}}
	s.Start()
	t.Cleanup(s.Close)
	good, bad := netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1")
	dns := resolving(map[string][][]netip.Addr{"rebind.test.": {{good}, {bad}}})
	n := listener.Addr().(*net.TCPAddr).Port
	c := client(t, func(o *safehttp.Options) {
		o.Resolver, o.Ports = dns.resolver(t), []uint16{uint16(n)}
		o.AllowNets = []netip.Prefix{netip.PrefixFrom(good, 32)}
	})
	address := fmt.Sprintf("http://rebind.test:%d/", n)
	if _, err := get(t, c, address); err != nil || reached.Load() != 1 {
		t.Fatalf("before: %v, reached %d times", err, reached.Load())
	}
	if dns.asked != 2 { // for its IPv4 and its IPv6 addresses
		t.Errorf("asked for the name %d times; one look-up must serve check and dial", dns.asked)
	}
	_, err = get(t, c, address)
	refused(t, "after", err, "address")
	if reached.Load() != 1 {
		t.Error("the server was reached by its bad address")
	}
}

func TestAServerOnThisMachineIsReachedOnlyWithAnExplicitAllowance(t *testing.T) {
	base, reach := server(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	if got, err := get(t, client(t, reach), base); err != nil || got != "hello" {
		t.Errorf("allowed: %q, %v", got, err)
	}
	_, err := get(t, client(t, reach, func(o *safehttp.Options) { o.AllowNets = nil }), base)
	refused(t, "without its network", err, "address")
	_, err = get(t, client(t, reach, func(o *safehttp.Options) { o.Ports = nil }), base)
	refused(t, "without its port", err, "port")
}

// The environment's proxy is read once in a process, so the client is tried in another one.
func TestNoProxyIsTakenFromTheEnvironment(t *testing.T) {
	if os.Getenv("HTTP_PROXY") != "" && os.Getenv("ERRAND_TEST_CHILD") != "" {
		c := client(t, func(o *safehttp.Options) { o.AllowNets = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
		_, err := get(t, c, "http://10.0.0.1/")
		refused(t, "through a proxy", err, "address")
		return
	}
	proxy, _ := server(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxyIsTakenFromTheEnvironment$")
	child.Env = append(os.Environ(), "ERRAND_TEST_CHILD=1", "HTTP_PROXY="+proxy)
	if output, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

func TestResponsesAreBounded(t *testing.T) {
	base, reach := server(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		body := strings.Repeat("x", n)
		switch r.URL.Path {
		case "/stream":
			w.(http.Flusher).Flush() // so that no length is sent
			io.WriteString(w, body)
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, body)
			z.Close()
		default:
			w.Header().Set("Content-Length", strconv.Itoa(n))
			io.WriteString(w, body)
		}
	})
	c := client(t, reach, func(o *safehttp.Options) { o.MaxBytes = 1000 })
	for _, path := range []string{"/length", "/stream", "/gzip"} {
		if got, err := get(t, c, base+path+"?n=1000"); err != nil || len(got) != 1000 {
			t.Errorf("%s that just fits: %d bytes, %v", path, len(got), err)
		}
		got, err := get(t, c, base+path+"?n=1001")
		if large, ok := errors.AsType[*safehttp.TooLargeError](err); !ok || large.MaxBytes != 1000 || len(got) > 1000 {
			t.Errorf("%s that does not fit: %d bytes, %v", path, len(got), err)
		}
	}
	response, err := c.Head(base + "/length?n=5000")
	if err != nil {
		t.Fatalf("the head of a large one: %v", err)
	}
	response.Body.Close()
}

func TestASlowServerIsATimeout(t *testing.T) {
	release := make(chan struct{})
	base, reach := server(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	_, err := get(t, client(t, reach, func(o *safehttp.Options) { o.Timeout = 20 * time.Millisecond }), base)
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
		t.Errorf("got %v", err)
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for want, o := range map[string]safehttp.Options{
		"allows nothing":                      {},
		"set one of them":                     {AnyPublicHost: true, Hosts: []string{"example.com"}},
		`"*" is no host`:                      {Hosts: []string{"*"}},
		`"*." is no host`:                     {Hosts: []string{"*."}},
		`"" is no host`:                       {Hosts: []string{""}},
		"without scheme":                      {Hosts: []string{"https://example.com"}},
		"and port":                            {Hosts: []string{"example.com:443"}},
		`"a*.example.com" is`:                 {Hosts: []string{"a*.example.com"}},
		"is no network":                       {AnyPublicHost: true, AllowNets: []netip.Prefix{{}}},
		"MaxBytes is -1":                      {AnyPublicHost: true, MaxBytes: -1},
		`"::ffff:10.0.0.0/104" is no network`: {AnyPublicHost: true, AllowNets: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}},
	} {
		if _, err := safehttp.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
