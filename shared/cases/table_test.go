package cases_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const table = "../../docs/cases.md"

// last is the highest number of a case, lastDefect that of a defect, lastSentence that of a
// sentence about the agent runtime; skipped are numbers that name no case.
const (
	last         = 126
	lastDefect   = 19
	lastSentence = 59
)

var skipped = map[int]bool{12: true, 14: true, 23: true, 57: true, 84: true, 118: true}

// named finds tests: those of this package by their name, others with their package.
var named = regexp.MustCompile("`([a-z]+\\.)?(Test[A-Za-z0-9]+)`")

// TestTheTableNamesEveryCaseAndOnlyRealTests keeps docs/cases.md true: each number has a
// row, each row names tests or says why there is none, each named test exists, and each test
// of a number is named.
func TestTheTableNamesEveryCaseAndOnlyRealTests(t *testing.T) {
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	mentioned := map[string]bool{}
	for _, m := range named.FindAllStringSubmatch(string(text), -1) {
		name := m[1] + m[2]
		mentioned[name] = true
		if m[1] == "" {
			name = "cases." + name
		}
		if !tests[name] {
			t.Errorf("%s is named and does not exist", name)
		}
	}
	rows := rowsOf(t, string(text))
	for n := 1; n <= last; n++ {
		if !rows[fmt.Sprint(n)] && !skipped[n] {
			t.Errorf("case %d has no row", n)
		}
	}
	for letter, last := range map[string]int{"D": lastDefect, "R": lastSentence} {
		for n := 1; n <= last; n++ {
			if number := fmt.Sprint(letter, n); !rows[number] {
				t.Errorf("%s has no row", number)
			}
		}
	}
	for test := range tests {
		own, ok := strings.CutPrefix(test, "cases.")
		if ok && regexp.MustCompile(`^Test([A-I][0-9]|DefectD)`).MatchString(own) && !mentioned[own] {
			t.Errorf("%s is in no row", own)
		}
	}
}

// rowsOf lists the numbers that have a row, and refuses rows that prove nothing.
func rowsOf(t *testing.T, text string) map[string]bool {
	t.Helper()
	rows := map[string]bool{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || !regexp.MustCompile(`^ *[DR]?[0-9]+( and [0-9]+|–[0-9]+)? *$`).MatchString(cells[0]) {
			continue
		}
		for _, number := range numbers(strings.TrimSpace(cells[0])) {
			if rows[number] {
				t.Errorf("%s has two rows", number)
			}
			rows[number] = true
		}
		if !named.MatchString(cells[2]) && len(strings.Fields(cells[2])) < 4 {
			t.Errorf("row %s names no test and gives no reason", cells[0])
		}
	}
	return rows
}

// numbers lists what "7", "D3", "7 and 8" and "7–9" stand for.
func numbers(cell string) []string {
	var first, last int
	if n, _ := fmt.Sscanf(cell, "%d and %d", &first, &last); n == 2 {
		return []string{fmt.Sprint(first), fmt.Sprint(last)}
	}
	if n, _ := fmt.Sscanf(cell, "%d–%d", &first, &last); n == 2 {
		list := []string{}
		for n := first; n <= last; n++ {
			list = append(list, fmt.Sprint(n))
		}
		return list
	}
	return []string{cell}
}

// testNames parses the test files of the repository: "cases.TestA01…" is one of this package.
// A package is known by its folder.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, root := range []string{"../../shared", "../../functions", "../../cli"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
					names[filepath.Base(filepath.Dir(path))+"."+f.Name.Name] = true
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}
