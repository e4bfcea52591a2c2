package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// job is the input of the researcher's run, as its model sees it.
type job struct {
	Question    string   `json:"question"`
	Sources     []string `json:"sources"`
	WaitSeconds int      `json:"wait_seconds"`
	// Replace: there was a report already, so write_report needs approval.
	Replace bool `json:"replace_report,omitempty"`
}

// maxSources keeps the readers and the researcher within the cap of a conversation.
const maxSources = 50

// sourcesOf returns the folder among what --sources names, if there is one, and the names of
// all sources: of the files in the folder, then the URLs.
func sourcesOf(o options) (folder string, sources []string, err error) {
	var pages []string
	for _, s := range o.sources {
		s = strings.TrimSpace(s)
		switch {
		case strings.HasPrefix(s, "http://") && !o.web.AllowHTTP:
			return "", nil, fmt.Errorf("the source %s: only https is fetched", s)
		case strings.HasPrefix(s, "https://"), strings.HasPrefix(s, "http://"):
			if err := allowedPage(s, o.allow); err != nil {
				return "", nil, err
			}
			pages = append(pages, s)
		case folder != "":
			return "", nil, fmt.Errorf("--sources names two folders, %s and %s; it takes one, and any number of URLs", folder, s)
		default:
			if folder, err = filepath.Abs(s); err != nil {
				return "", nil, fmt.Errorf("resolving the folder of sources: %w", err)
			}
		}
	}
	if folder != "" {
		if sources, err = filesIn(folder); err != nil {
			return "", nil, err
		}
	}
	slices.Sort(pages)
	sources = append(sources, slices.Compact(pages)...)
	switch {
	case len(sources) == 0:
		return "", nil, errors.New("there is nothing to read; --sources takes a folder with .txt, .md or .html files, and URLs")
	case len(sources) > maxSources:
		return "", nil, fmt.Errorf("there are %d sources; %d can be read at a time", len(sources), maxSources)
	}
	return folder, sources, nil
}

func allowedPage(address string, allowed []string) error {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return fmt.Errorf("the source %q is no address", address)
	}
	matches := func(host string) bool {
		below, any := strings.CutPrefix(host, "*")
		return strings.EqualFold(host, u.Hostname()) || any && strings.HasSuffix(strings.ToLower(u.Hostname()), strings.ToLower(below))
	}
	if !slices.ContainsFunc(allowed, matches) {
		return fmt.Errorf("the host of the source %s is not allowed; if it is meant: --allow %s", address, u.Hostname())
	}
	return nil
}

// filesIn lists the texts below the folder. Links and hidden files are passed over.
func filesIn(folder string) ([]string, error) {
	var names []string
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular() && slices.Contains([]string{".txt", ".md", ".html"}, strings.ToLower(path.Ext(name))):
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the folder of sources %s: %w", folder, err)
	}
	return names, nil
}

// nameOf names the work on these sources with this model: the same command finds its work again.
func (j job) nameOf(folder, model string) string {
	raw, _ := json.Marshal([]any{j.Question, j.Sources, folder, model}) // strings always encode
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:6])
}
