package cases_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const table = "../../docs/cases.md"

// last is the highest number of a case; skipped are numbers that name none.
const last = 126

var skipped = map[int]bool{12: true, 14: true, 23: true, 57: true, 84: true, 118: true}

// TestTheTableNamesEveryCaseAndOnlyRealTests keeps docs/cases.md true: each number and
// each defect has a row, each row names tests that exist or says why there is none, and
// each test of a number is named.
func TestTheTableNamesEveryCaseAndOnlyRealTests(t *testing.T) {
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	rows := map[string]bool{}
	named := map[string]bool{}
	name := regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || !regexp.MustCompile(`^ *D?[0-9]+( and [0-9]+|–[0-9]+)? *$`).MatchString(cells[0]) {
			continue
		}
		for _, number := range numbers(strings.TrimSpace(cells[0])) {
			rows[number] = true
		}
		found := name.FindAllStringSubmatch(cells[2], -1)
		if len(found) == 0 && len(strings.Fields(cells[2])) < 4 {
			t.Errorf("row %s names no test and gives no reason", cells[0])
		}
		for _, m := range found {
			named[m[1]] = true
			if !tests[m[1]] {
				t.Errorf("row %s names %s, which does not exist", cells[0], m[1])
			}
		}
	}
	for n := 1; n <= last; n++ {
		if number := fmt.Sprint(n); !rows[number] && !skipped[n] {
			t.Errorf("case %s has no row", number)
		}
	}
	for n := 1; n <= 19; n++ {
		if number := fmt.Sprintf("D%d", n); !rows[number] {
			t.Errorf("defect %s has no row", number)
		}
	}
	for test := range tests {
		if regexp.MustCompile(`^Test([A-I][0-9]|DefectD)`).MatchString(test) && !named[test] {
			t.Errorf("%s is in no row", test)
		}
	}
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

// testNames parses the test files of this package.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}
