package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestThePagesNameOnlyTestsThatExist also wants each claim of docs/security.md to name one.
func TestThePagesNameOnlyTestsThatExist(t *testing.T) {
	tests := testsOf(t)
	name := regexp.MustCompile(`\bTest[A-Z]\w+`)
	// docs/cases.md is checked by package cases.
	for _, page := range []string{"docs/security.md", "docs/operations.md", "docs/emulators.md", "docs/design.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, named := range name.FindAllString(string(text), -1) {
			if !tests[named] {
				t.Errorf("%s names %s, which does not exist", page, named)
			}
		}
		if filepath.Base(page) != "security.md" {
			continue
		}
		claims, within := 0, false
		for line := range strings.Lines(string(text)) {
			row := strings.HasPrefix(line, "| ")
			switch {
			case strings.HasPrefix(line, "| claim "):
				within = true
			case !row && !strings.HasPrefix(line, "|-"):
				within = false
			case row && within:
				if claims++; !name.MatchString(line) {
					t.Errorf("this claim names no test: %s", line)
				}
			}
		}
		if claims < 20 {
			t.Errorf("%s has %d claims: the test does not read it right", page, claims)
		}
	}
}

func TestTheDesignSaysWhatEachModuleIsFor(t *testing.T) {
	gomod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	design, err := os.ReadFile("docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(design), "| module | for | why this one |\n")
	var said []string
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		for name := range strings.SplitSeq(cell, ", ") {
			if name = strings.TrimSuffix(name, "/…"); strings.Contains(name, ".") {
				said = append(said, name)
			}
		}
	}
	// A row may name a part of a module, or the path of a major version without its number.
	related := func(a, b string) bool { return strings.HasPrefix(a+"/", b+"/") || strings.HasPrefix(b+"/", a+"/") }
	var required []string
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+( // indirect)?$`).FindAllStringSubmatch(string(gomod), -1) {
		required = append(required, m[1])
		if m[2] == "" && !slices.ContainsFunc(said, func(name string) bool { return related(m[1], name) }) {
			t.Errorf("the table of docs/design.md has no row for %s", m[1])
		}
	}
	if len(required) < 20 || len(said) < 20 {
		t.Fatalf("%d modules and %d rows: the test does not read them right", len(required), len(said))
	}
	for _, name := range said {
		if !slices.ContainsFunc(required, func(m string) bool { return related(m, name) }) {
			t.Errorf("docs/design.md has a row for %s, which go.mod does not require", name)
		}
	}
}

// testsOf finds the names of all tests of the module.
func testsOf(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declared := range file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
