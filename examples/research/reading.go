package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/errand-dev/errand/shared/agent"
)

// assignment is the input of a reader.
type assignment struct {
	Source   string `json:"source" jsonschema:"the name of the source, as it was given"`
	Question string `json:"question" jsonschema:"what to look for in it"`
}

// findings is what a reader's model answers.
type findings struct {
	Source string  `json:"source"`
	Claims []claim `json:"claims"`
}

type claim struct {
	Text  string `json:"text" jsonschema:"what the source says, in one sentence"`
	Quote string `json:"quote" jsonschema:"the passage that says it, letter by letter"`
}

// reading is a reader's output: claims whose quotes are in the source.
type reading struct {
	findings
	// Refused are the claims whose quotes are not.
	Refused []claim `json:"refused,omitempty"`
}

// checked makes a reader's task of the agent's: what its model quotes is looked up.
func (l *library) checked(read agent.Task) agent.Task {
	return func(ctx context.Context, run *agent.Run) (any, error) {
		var in assignment
		if err := run.Input(&in); err != nil {
			return nil, err
		}
		answer, err := read(context.WithValue(ctx, sourceKey{}, in.Source), run)
		if err != nil {
			return nil, err
		}
		var f findings
		if raw, ok := answer.(json.RawMessage); !ok || json.Unmarshal(raw, &f) != nil {
			return nil, errors.New("its reader gave no findings")
		}
		return l.verify(in.Source, f)
	}
}

func (l *library) verify(source string, f findings) (reading, error) {
	r := reading{findings: findings{Source: source, Claims: []claim{}}}
	text, err := l.text(source)
	if err != nil {
		return r, errors.New("its reader has not read it")
	}
	for _, c := range f.Claims {
		if occurs(text, c.Quote) {
			r.Claims = append(r.Claims, c)
		} else {
			r.Refused = append(r.Refused, c)
		}
	}
	if len(r.Claims) == 0 && len(r.Refused) > 0 {
		return r, fmt.Errorf("its reader quoted what is not in it, like %q", head(r.Refused[0].Quote, 80))
	}
	return r, nil
}

// String is the summary of the run.
func (r reading) String() string { return count(len(r.Claims), "claim") + " from " + r.Source }

type quoteArgs struct {
	Source string `json:"source"`
	Quote  string `json:"quote"`
}

// checkQuote is the tool check_quote.
func (l *library) checkQuote(_ context.Context, in quoteArgs) (string, error) {
	text, err := l.text(in.Source)
	if err != nil {
		return "", fmt.Errorf("%s was not read yet", in.Source)
	}
	if !occurs(text, in.Quote) {
		return "", errors.New("this is not in the source, or has less than three words; copy a passage letter by letter")
	}
	return "It is in the source.", nil
}

// shortestQuote is how many words a quote has at least: fewer prove nothing.
const shortestQuote = 3

// occurs reports whether the quote stands in the text in whole words, however lines are broken.
func occurs(text, quote string) bool {
	words := strings.Fields(quote)
	if len(words) < shortestQuote {
		return false
	}
	text, quote = strings.Join(strings.Fields(text), " "), strings.Join(words, " ")
	for {
		before, after, found := strings.Cut(text, quote)
		if !found {
			return false
		}
		last, _ := utf8.DecodeLastRuneInString(before)
		next, _ := utf8.DecodeRuneInString(after)
		if !wordRune(last) && !wordRune(next) {
			return true
		}
		text = after
	}
}

func wordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// head is the beginning of s, at most n characters.
func head(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n]) + "…"
	}
	return s
}
