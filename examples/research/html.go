package main

import (
	"fmt"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// textOfHTML returns what a reader of the page sees, a line for each block.
func textOfHTML(page string) (string, error) {
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return "", fmt.Errorf("reading the page: %w", err)
	}
	var b strings.Builder
	addText(&b, root)
	var lines []string
	for line := range strings.Lines(b.String()) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n"), nil
}

func addText(b *strings.Builder, n *html.Node) {
	switch n.Type {
	case html.TextNode:
		b.WriteString(strings.ReplaceAll(n.Data, "\n", " "))
	case html.ElementNode:
		switch n.DataAtom {
		case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Iframe, atom.Select:
			return
		}
	}
	for child := range n.ChildNodes() {
		addText(b, child)
	}
	if n.Type == html.ElementNode && !inline(n.DataAtom) {
		b.WriteByte('\n')
	}
}

// inline reports whether text goes on behind the element in the same line.
func inline(a atom.Atom) bool {
	switch a {
	case atom.A, atom.Abbr, atom.B, atom.Cite, atom.Code, atom.Del, atom.Em, atom.Font, atom.I, atom.Img, atom.Ins, atom.Kbd, atom.Mark,
		atom.Q, atom.S, atom.Small, atom.Span, atom.Strong, atom.Sub, atom.Sup, atom.Time, atom.U, atom.Var, atom.Wbr:
		return true
	}
	return false
}
