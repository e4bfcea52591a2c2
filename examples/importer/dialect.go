package importer

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxColumns is SQLite's default limit (SQLITE_MAX_COLUMN).
const maxColumns = 2000

var (
	utf8Mark     = []byte("\xef\xbb\xbf")
	utf16Little  = []byte("\xff\xfe")
	utf16Big     = []byte("\xfe\xff")
	separatorSet = []rune{',', ';', '\t'}
)

// checkText looks at the start of a file, after a UTF-8 mark, and refuses what
// cannot be CSV.
func checkText(path string, head []byte) error {
	switch {
	case len(bytes.TrimSpace(head)) == 0:
		return problem(ErrEmpty, "the file %s is empty", path)
	case bytes.HasPrefix(head, utf16Little), bytes.HasPrefix(head, utf16Big):
		return problem(ErrNotCSV, "%s is saved as UTF-16; save it as CSV in UTF-8", path)
	case looksBinary(head):
		return problem(ErrNotCSV, "%s is not a text file", path)
	case !bytes.ContainsRune(head, '\n') && bytes.ContainsRune(head, '\r'):
		return problem(ErrNotCSV, "%s has the line ends of old Macs; save it as CSV again", path)
	case !utf8.Valid(headerLine(head)):
		return problem(ErrNotCSV, "the header of %s is not UTF-8; save the file as CSV in UTF-8", path)
	}
	return nil
}

// looksBinary reports whether more than one byte in a hundred is a control
// character that text does not have, or the first line holds a NUL. A NUL further
// down only costs its row.
func looksBinary(head []byte) bool {
	controls := 0
	for _, c := range head {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
			controls++
		}
	}
	return controls*100 > len(head) || bytes.IndexByte(headerLine(head), 0) >= 0
}

// headerLine returns the first line that is not blank. A line break inside
// quotation marks does not end it.
func headerLine(head []byte) []byte {
	head = bytes.TrimLeft(head, "\r\n")
	quoted := false
	for i, c := range head {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '\n' && !quoted:
			return head[:i]
		}
	}
	return head
}

// separator returns the candidate that the header line has most often outside
// quotation marks; comma if it has none.
func separator(head []byte) rune {
	counts := make(map[rune]int)
	quoted := false
	for _, c := range headerLine(head) {
		if c == '"' {
			quoted = !quoted
		} else if !quoted {
			counts[rune(c)]++
		}
	}
	best := separatorSet[0]
	for _, candidate := range separatorSet {
		if counts[candidate] > counts[best] {
			best = candidate
		}
	}
	return best
}

// columnNames makes every header usable as a name in one table: none is empty and
// no two are equal, upper and lower case being the same to SQLite.
func columnNames(header []string) []string {
	taken := make(map[string]bool)
	for _, h := range header {
		taken[strings.ToLower(strings.TrimSpace(h))] = true
	}
	used := make(map[string]bool)
	names := make([]string, len(header))
	for i, h := range header {
		name := strings.TrimSpace(h)
		if name == "" {
			name = fmt.Sprintf("column_%d", i+1)
		}
		base := name
		// A made-up name must not take one that a later header has by right.
		for n := 2; used[strings.ToLower(name)] || name != strings.TrimSpace(h) && taken[strings.ToLower(name)]; n++ {
			name = fmt.Sprintf("%s_%d", base, n)
		}
		used[strings.ToLower(name)] = true
		names[i] = name
	}
	return names
}
