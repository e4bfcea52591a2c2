package harness

import (
	"fmt"
	"unicode/utf8"

	"github.com/errand-dev/errand/shared/model"
)

// The rule of compaction. When the context is estimated to be larger than
// Limits.ContextTokens it is brought down to three quarters of that, by two means in this order:
//
//  1. results of tools, the oldest first, are replaced by a line that names them;
//     read_result shows them again;
//  2. in a conversation, what was said before this turn, the oldest first, is replaced by
//     one line that says how many messages are missing.
//
// The instructions, the task or the turn's message, and the newest Limits.KeepMessages
// messages stay. If the vendor still finds the context too long, the same is done once more to half of
// it, sparing the newest message only. What then does not fit ends the run.

// bytesPerToken is how many bytes of text a token has, about.
const bytesPerToken = 4

// size estimates the tokens of the next request.
func (x *session) size() int {
	n := len(x.begin.Instructions)
	for _, t := range x.offered {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, m := range x.messages {
		n += messageBytes(m)
	}
	return n / bytesPerToken
}

func messageBytes(m model.Message) int {
	n := len(m.Text)
	for _, c := range m.Calls {
		n += len(c.Name) + len(c.Arguments)
	}
	for _, r := range m.Results {
		n += len(r.Text)
	}
	return n
}

// compact follows the rule above and reports whether anything was taken out.
func (x *session) compact(limit, keep int) bool {
	size := x.size()
	if size <= limit {
		return false
	}
	over := (size - limit*3/4) * bytesPerToken
	changed := x.foldResults(len(x.messages)-keep, &over)
	return x.omitHistory(len(x.messages)-keep, &over) || changed
}

// foldResults replaces results in messages before end until over is used up.
func (x *session) foldResults(end int, over *int) (changed bool) {
	for i := 0; i < end && *over > 0; i++ {
		results := append([]model.Result(nil), x.messages[i].Results...)
		for j, r := range results {
			name := x.ids[r.CallID]
			whole := x.results[name]
			note := fmt.Sprintf("[Taken out to save room: the result of %s, %d bytes. %s {\"result\":%q} shows it.]", whole.tool, len(whole.text), readResultName, name)
			if len(r.Text) <= len(note) {
				continue
			}
			*over -= len(r.Text) - len(note)
			results[j].Text, changed = note, true
		}
		x.messages[i].Results = results
	}
	return changed
}

// omitHistory leaves out what was said before the task, and before end.
func (x *session) omitHistory(end int, over *int) bool {
	end = min(end, x.asked)
	n := 0
	for ; n < end && *over > 0; n++ {
		*over -= messageBytes(x.messages[n])
	}
	// A model expects the user to speak first.
	for n > 0 && x.messages[n].Role != model.User {
		n--
	}
	if n <= 0 {
		return false
	}
	x.messages = append([]model.Message(nil), x.messages[n:]...)
	x.asked -= n
	x.omitted += n
	first := &x.messages[0]
	first.Text = fmt.Sprintf("[%d earlier messages of this conversation are left out to save room.]\n\n%s", x.omitted, first.Text)
	return true
}

// clipped is as much of a result as the model is shown at once.
func (x *session) clipped(name, text string) string {
	if len(text) <= x.limits.ResultBytes {
		return text
	}
	shown := head(text, x.limits.ResultBytes)
	return fmt.Sprintf("%s\n[These are the first %d of %d bytes. %s {\"result\":%q,\"offset\":%d} shows what follows.]",
		shown, len(shown), len(text), readResultName, name, len(shown))
}

// head is the beginning of s, at most n bytes and no part of a character.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
