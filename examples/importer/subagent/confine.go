package importagent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// confine makes the paths of the input absolute below Root, if there is one, and
// refuses those that lead out of it. It judges the folder as it is now: whoever can
// change links in it while an import runs is trusted like the process itself.
func (o Options) confine(in *Input) error {
	if o.Root == "" {
		return nil
	}
	base, err := filepath.Abs(o.Root)
	if err != nil {
		return fmt.Errorf("resolving the import folder: %w", err)
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return errors.New("the folder that imports are limited to cannot be opened")
	}
	defer root.Close()
	for _, path := range []*string{&in.Source, &in.Database} {
		if *path, err = inside(root, base, *path); err != nil {
			return err
		}
	}
	return nil
}

// inside returns the absolute form of path. os.Root follows links, and fails at one
// that leaves the folder; what is not there, or may not be seen, is the importer's to tell.
func inside(root *os.Root, base, path string) (string, error) {
	refused := fmt.Errorf("%s lies outside the folder that imports are limited to", path)
	// Cleaned, so that what is looked at below is what is opened later: behind a link to
	// another folder, ".." would lead elsewhere.
	relative := filepath.Clean(path)
	if filepath.IsAbs(path) {
		var err error
		if relative, err = filepath.Rel(base, path); err != nil {
			return "", refused
		}
	}
	if _, err := root.Stat(relative); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return "", refused
	}
	return filepath.Join(base, relative), nil
}
