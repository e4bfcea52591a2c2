package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/safehttp"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

// site is a web site of the test's own, which is allowed although it is not public.
func site(t *testing.T, handler http.Handler) (address string, web safehttp.Options) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, local(t, server.URL)
}

func local(t *testing.T, address string) safehttp.Options {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return safehttp.Options{AllowHTTP: true, Ports: []uint16{uint16(port)}, AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Timeout: 20 * time.Second}
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, text)
	}
}

func redirects(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

func TestReadersReadNothingOutsideTheFolder(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	secret := write(t, elsewhere, "secret.txt", "secret")
	write(t, dir, "good.txt", "good")
	write(t, dir, "deep/good.txt", "deep")
	write(t, dir, "page.html", "<h1>A&amp;B</h1><script>no</script><p>one<br>two <b>three</b></p>")
	write(t, dir, "binary.txt", "a\x00b")
	write(t, dir, "latin.txt", "\xe4\xf6")
	write(t, dir, "empty.txt", " \n")
	write(t, dir, "large.txt", strings.Repeat("a", maxText+1))
	for name, target := range map[string]string{"link.txt": secret, "folder": elsewhere, "within.txt": "good.txt", "up.txt": "deep/../../" + filepath.Base(elsewhere) + "/secret.txt"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	l, err := openLibrary(dir, options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	l.kept = t.TempDir()
	const outside = "it lies outside"
	for path, want := range map[string]string{
		"../" + filepath.Base(elsewhere) + "/secret.txt": outside, "deep/../../x": outside, secret: outside, "/etc/passwd": outside,
		"link.txt": outside, "folder/secret.txt": outside, "up.txt": outside,
		"nothing.txt": "there is no such file", "deep": "it is not a file", ".": "it is not a file",
		"binary.txt": "not text in UTF-8", "latin.txt": "not text in UTF-8", "empty.txt": "it is empty", "large.txt": "more than 2097152 bytes",
	} {
		if text, err := l.readFile(t.Context(), fileArgs{path}); err == nil || !strings.Contains(err.Error(), want) || text != "" {
			t.Errorf("%s: %q, error %v, want %q", path, text, err, want)
		}
	}
	for path, want := range map[string]string{"good.txt": "good", "./deep//good.txt": "deep", "within.txt": "good", "page.html": "A&B\none\ntwo three"} {
		if text, err := l.readFile(t.Context(), fileArgs{path}); err != nil || text != want {
			t.Errorf("%s: %q, error %v, want %q", path, text, err, want)
		}
	}
	write(t, dir, "good.txt", "changed")
	if text, err := l.readFile(t.Context(), fileArgs{"good.txt"}); err != nil || text != "good" {
		t.Errorf("what quotes are held against has changed: %q, error %v", text, err)
	}
	if _, err := l.fetch(t.Context(), pageArgs{"https://example.com/"}); err == nil || !strings.Contains(err.Error(), outside) {
		t.Errorf("a page without --allow: %v", err)
	}
}

func TestReadersFetchNothingButPagesOfAllowedHosts(t *testing.T) {
	pages := http.NewServeMux()
	pages.Handle("/good", says("<title>T</title><p>good</p>"))
	pages.Handle("/moved", redirects("/good"))
	pages.Handle("/metadata", redirects("http://169.254.169.254/latest/meta-data/"))
	pages.Handle("/elsewhere", redirects("https://example.com/"))
	pages.HandleFunc("/image", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "image/png") })
	pages.HandleFunc("/forbidden", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	pages.Handle("/large", says(strings.Repeat("<p>a</p>", maxText/8+1)))
	address, web := site(t, pages)
	l, err := openLibrary("", options{allow: []string{"127.0.0.1"}, web: web})
	if err != nil {
		t.Fatal(err)
	}
	l.kept = t.TempDir()
	for page, want := range map[string]string{
		address + "/metadata": "169.254.169.254", address + "/elsewhere": "example.com", "http://169.254.169.254/": "169.254.169.254",
		"https://localhost/": "localhost", "http://127.0.0.1:1/": "port", "file:///etc/passwd": "scheme", "http://2130706433/": "host",
		address + "/image": `no text but "image/png"`, address + "/forbidden": "403 Forbidden", address + "/large": "more than 2097152 bytes",
		address + "/nothing": "404 Not Found", "http://a b/": "no address",
	} {
		if text, err := l.fetch(t.Context(), pageArgs{page}); err == nil || !strings.Contains(err.Error(), want) || text != "" {
			t.Errorf("%s: %q, error %v, want %q", page, text, err, want)
		}
	}
	for _, page := range []string{"/good", "/moved"} {
		if text, err := l.fetch(t.Context(), pageArgs{address + page}); err != nil || text != "T\ngood" {
			t.Errorf("%s: %q, error %v", page, text, err)
		}
	}
	if _, err := l.readFile(t.Context(), fileArgs{"library_test.go"}); err == nil {
		t.Error("a file was read without a folder")
	}
}

func TestAQuoteOccursInWholeWordsHoweverLinesAreBroken(t *testing.T) {
	const text = "The tide comes about 50 minutes\n later  than\tyesterday's. The tide comes about 5 days early."
	for quote, want := range map[string]bool{
		"about 50 minutes later than yesterday's.": true,
		"tide comes\nabout 5":                      true,
		"50 minutes later":                         true,
		"about 5 minutes":                          false,
		"out 50 minutes later":                     false,
		"about 50 minutes late":                    false,
		"About 50 minutes":                         false,
		"50 minutes":                               false,
		"":                                         false,
	} {
		if occurs(text, quote) != want {
			t.Errorf("%q occurs: %v", quote, !want)
		}
	}
}

// liveRuns lists the runs in the data folder that have not ended.
func liveRuns(t *testing.T, data string) (ids []string) {
	t.Helper()
	stack, err := serve.Open(t.Context(), serve.Options{Dir: data, Agents: agent.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	defer stack.Close()
	runs, err := stack.Ledger.ListRuns(t.Context(), subagent.Owner{Tenant: "default", Conversation: "research"}, "", 0)
	if err != nil || len(runs) == 0 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	for _, r := range runs {
		if r.Status.Live() {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

func TestSourcesThatCannotBeHadAreNamedAndHoldNothingUp(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.txt", "The moon moves the sea.")
	ctx, release := context.WithCancel(t.Context())
	defer release()
	pages := http.NewServeMux()
	pages.HandleFunc("/hangs", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-ctx.Done():
		case <-r.Context().Done():
		}
	})
	pages.HandleFunc("/refuses", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	pages.Handle("/astray", redirects("http://169.254.169.254/"))
	address, web := site(t, pages)
	dead := httptest.NewServer(nil)
	dead.Close()
	web.Ports = append(web.Ports, local(t, dead.URL).Ports...)
	o := asked(t)
	o.sources = []string{dir, address + "/hangs", address + "/refuses", address + "/astray", dead.URL}
	o.allow, o.web, o.wait = []string{"127.0.0.1"}, web, time.Second
	events, err := run(t, o.scripted(t, `when "sources":\["([^"]+)","([^"]+)","([^"]+)","([^"]+)","([^"]+)"\],"wait_seconds":(\d+)
> call background_reader {"source":"{{1}}","question":"?"}
> call background_reader {"source":"{{2}}","question":"?"}
> call background_reader {"source":"{{3}}","question":"?"}
> call background_reader {"source":"{{4}}","question":"?"}
> call background_reader {"source":"{{5}}","question":"?"}
---
> call wait_for {"ids":{{ids}},"timeout_seconds":{{6}}}
---
> call write_report {"title":"T","answer":"It is so [{{1}}]."}
---
Done.
when "source":"(a.txt)"
> call read_file {"path":"{{1}}"}
---
{"source":"a.txt","claims":[{"text":"True.","quote":"The moon moves the sea."}]}
when "source":"(http[^"]+)"
> call fetch {"url":"{{1}}"}
---
{"source":"{{1}}","claims":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	report := contents(t, o.out)
	for _, want := range []string{
		"\n1. a.txt\n", "## Without a finding",
		"- " + address + "/hangs: its reader had not ended after 1 seconds\n",
		"- " + address + "/refuses: the server answers 403 Forbidden\n",
		"- " + address + "/astray: ", "169.254.169.254", "- " + dead.URL + ": ", "connection refused",
	} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	if live := liveRuns(t, o.data); live != nil {
		t.Errorf("at work although nobody waits for it: %v", live)
	}
	if calls(events) != 4+2+4 {
		t.Errorf("%d model calls were paid for: %+v", calls(events), events)
	}
}
