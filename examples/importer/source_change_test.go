package importer_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/examples/importer"
)

func TestAFileThatChangesWhileItIsReadIsNotImported(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change   func(path string) error
		sentence string
	}{
		"removed": {os.Remove, "the file PATH was removed while it was being imported"},
		"shorter": {func(p string) error {
			return sameTime(p, func() error { return os.Truncate(p, 200_000) })
		}, "the file PATH changed while it was being imported"},
		"longer": {func(p string) error {
			return sameTime(p, func() error { return overwrite(p, "7,7\n", os.O_APPEND) })
		}, "the file PATH changed while it was being imported"},
		"rewritten in place": {func(p string) error { return os.Chtimes(p, time.Time{}, time.Unix(1, 0)) },
			"the file PATH changed while it was being imported"},
		"replaced by another": {func(p string) error {
			return sameTime(p, func() error {
				content, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				if err := os.WriteFile(p+".new", content, 0o600); err != nil {
					return err
				}
				return os.Rename(p+".new", p)
			})
		}, "the file PATH changed while it was being imported"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, write(t, "a,b\n"+strings.Repeat("1,"+strings.Repeat("x", 297)+"\n", 1500)))
			o.SchemaReady = func(importer.Schema) {
				if err := tc.change(o.Source); err != nil {
					t.Error(err)
				}
			}
			_, err := importer.Import(t.Context(), o)
			wantProblem(t, err, importer.ErrSourceChanged, 0, strings.ReplaceAll(tc.sentence, "PATH", o.Source))
			equal(t, "tables left", tables(t, o.Database), []string(nil))
		})
	}
}

// sameTime runs change and gives the file its old time of change back.
func sameTime(path string, change func() error) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	return os.Chtimes(path, time.Time{}, info.ModTime())
}

// overwrite writes content over the start of the file, or with os.O_APPEND after its end.
func overwrite(path, content string, flag int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|flag, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(content); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

func TestAFileThatChangesBetweenTwoPassesIsNotImported(t *testing.T) {
	t.Parallel()
	head := "a,b\n" + strings.Repeat("100,100\n", 1500)
	o := options(t, write(t, head+"007,100\n"))
	o.Report = func(p importer.Progress) {
		if p.Pass == 1 && p.Fraction == 1 {
			err := sameTime(o.Source, func() error { return overwrite(o.Source, head+"100,007\n", 0) })
			if err != nil {
				t.Error(err)
			}
		}
		if p.Pass > 2 {
			t.Fatal("a third pass")
		}
	}
	_, err := importer.Import(t.Context(), o)
	wantProblem(t, err, importer.ErrSourceChanged, 0, "the file "+o.Source+" changed while it was being imported")
}
