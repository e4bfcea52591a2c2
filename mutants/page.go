package main

import (
	"fmt"
	"os"
	"strings"
)

// page is the file that has the table of the list.
const page = "docs/mutants.md"

const (
	tableBegins = "<!-- The table is written by go run ./mutants -write. -->\n"
	tableEnds   = "<!-- End of the table. -->\n"
)

// table is the list as the page shows it.
func table() string {
	var b strings.Builder
	b.WriteString("| mutant | protocol | killed by |\n|---|---|---|\n")
	for _, m := range mutants {
		by := m.suite
		if m.which != "" {
			which := strings.ReplaceAll(m.which, "_", " ")
			if m.suite == simulation {
				which = "seed " + which
			}
			by += ": " + which
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.name, m.page, by)
	}
	return b.String()
}

// withTable returns the page with its table brought up to date.
func withTable(text string) (string, error) {
	head, rest, begins := strings.Cut(text, tableBegins)
	_, tail, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return "", fmt.Errorf("%s does not mark where its table begins and ends", page)
	}
	return head + tableBegins + table() + tableEnds + tail, nil
}

func writePage() error {
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	next, err := withTable(string(text))
	if err != nil {
		return err
	}
	if err := os.WriteFile(page, []byte(next), 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
