package importagent

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

// FormatCompletion is the text of the message that tells the end of an import, for
// agent.Registry.FormatCompletion.
func FormatCompletion(run agent.Info) string {
	switch run.Status {
	case subagent.Completed:
		return run.Summary
	case subagent.Error:
		return failed + run.Problem + "."
	case subagent.Aborted:
		return "The import was cancelled."
	}
	return "The import was given up: it took too long."
}

// failed begins the message of an import that ended in an error.
const failed = "The import failed: "

// maxListed is how many columns are named in a sentence.
const maxListed = 15

func (s Schema) list() string {
	var names []string
	for _, c := range s.Columns[:min(maxListed, len(s.Columns))] {
		names = append(names, c.Name+" "+string(c.Type))
	}
	list := strings.Join(names, ", ")
	if more := s.Count - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// count says n things, with commas between thousands.
func count(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return Thousands(n) + " " + thing
}

func wereOf(n int64) string {
	if n == 1 {
		return "1 row was"
	}
	return count(n, "row") + " were"
}

// Thousands writes n with commas between thousands.
func Thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
