package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/errand-dev/errand/shared/harness"
)

// library is what readers may read: files of one folder and pages of the allowed hosts. It
// keeps each text as it was read, which is what quotes are held against.
type library struct {
	// root is the folder, nil if there is none.
	root *os.Root
	// web reaches the allowed hosts, nil if there are none.
	web *http.Client
	// kept is the folder of the texts.
	kept string
}

// maxText bounds a source, in bytes.
const maxText = 2 << 20

// errOutside refuses what readers may not read.
var errOutside = errors.New("it lies outside of what may be read here")

type fileArgs struct {
	Path string `json:"path" jsonschema:"the path of the file in the folder of sources"`
}

// readFile is the tool read_file.
func (l *library) readFile(ctx context.Context, in fileArgs) (string, error) {
	name := path.Clean(in.Path)
	return l.read(ctx, name, func() (string, error) { return l.file(name) })
}

type pageArgs struct {
	URL string `json:"url" jsonschema:"the address, with https://"`
}

// fetch is the tool fetch.
func (l *library) fetch(ctx context.Context, in pageArgs) (string, error) {
	return l.read(ctx, in.URL, func() (string, error) { return l.page(ctx, in.URL) })
}

// sourceKey finds in a context the source that a reader was sent to read.
type sourceKey struct{}

// read reads a text and keeps it. What was kept is not read again: a call that is made again
// after a crash finds it. A reader's own source that cannot be read ends it; anything else
// that it tries is told to its model.
func (l *library) read(ctx context.Context, name string, from func() (string, error)) (string, error) {
	if text, err := l.text(name); err == nil {
		return text, nil
	}
	text, err := from()
	if err == nil && (!utf8.ValidString(text) || strings.ContainsRune(text, 0)) {
		err = errors.New("it is not text in UTF-8")
	}
	if err == nil && strings.TrimSpace(text) == "" {
		err = errors.New("it is empty")
	}
	if err == nil {
		return text, writeWhole(l.place(name), text, 0o600)
	}
	if ctx.Err() == nil && ctx.Value(sourceKey{}) == name {
		return "", harness.Terminal(err)
	}
	return "", fmt.Errorf("%s: %w", name, err)
}

// file reads a file. The root follows no link and no .. out of the folder.
func (l *library) file(name string) (string, error) {
	if l.root == nil {
		return "", errOutside
	}
	info, err := l.root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("there is no such file")
	case errors.Is(err, fs.ErrPermission):
		return "", errors.New("it may not be read")
	case err != nil:
		return "", errOutside
	case !info.Mode().IsRegular():
		return "", errors.New("it is not a file")
	}
	file, err := l.root.Open(name)
	if err != nil {
		return "", errors.New("it cannot be opened")
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxText+1))
	if len(raw) > maxText {
		err = fmt.Errorf("it has more than %d bytes", maxText)
	}
	if err == nil && strings.EqualFold(path.Ext(name), ".html") {
		return textOfHTML(string(raw))
	}
	return string(raw), err
}

// page fetches a page. The client judges the address, and each that it redirects to.
func (l *library) page(ctx context.Context, address string) (string, error) {
	if l.web == nil {
		return "", errOutside
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", errors.New("it is no address")
	}
	response, err := l.web.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the server answers %s", response.Status)
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "text/") && kind != "application/xhtml+xml" && kind != "application/json" {
		return "", fmt.Errorf("it is no text but %q", kind)
	}
	raw, err := io.ReadAll(response.Body)
	if err == nil && strings.Contains(kind, "html") {
		return textOfHTML(string(raw))
	}
	return string(raw), err
}

// text returns a text that was read before. Errors: fs.ErrNotExist.
func (l *library) text(name string) (string, error) {
	raw, err := os.ReadFile(l.place(name))
	return string(raw), err
}

func (l *library) place(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(l.kept, hex.EncodeToString(sum[:16])+".txt")
}

// writeWhole writes a file that is there whole or not at all.
func writeWhole(name, text string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".part-*")
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, text)
	err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
