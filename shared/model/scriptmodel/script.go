package scriptmodel

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/errand-dev/errand/shared/model"
)

// scene is what the model answers to words that match its pattern.
type scene struct {
	line    int
	pattern *regexp.Regexp
	// model limits the scene to requests for this model, if set.
	model   string
	answers []answer
}

// answer is one response.
type answer struct {
	text  string
	calls []call
	stop  model.Stop
	usage model.Usage
	wait  time.Duration
	// fault, if set, is met so many times before the answer is given.
	fault *fault
	// repeat: the answer is given to every later request of the scene too.
	repeat bool
}

type call struct{ name, arguments string }

type fault struct {
	kind  model.Kind
	after time.Duration
	times int
	// cut: half of the text is streamed before the connection breaks.
	cut bool
}

// parser reads a script line by line.
type parser struct {
	name   string
	line   int
	scenes []scene
	text   []string
}

// Parse reads a script. name stands in errors, which name the line too.
func Parse(name, script string) (*Model, error) {
	p := &parser{name: name}
	for line := range strings.Lines(script) {
		p.line++
		if err := p.take(strings.TrimRight(line, "\r\n")); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, p.line, err)
		}
	}
	p.closeAnswer()
	if len(p.scenes) == 0 {
		return nil, fmt.Errorf("%s: a script needs at least one line that begins with \"when\"", name)
	}
	return &Model{name: name, scenes: p.scenes, met: map[string]int{}}, nil
}

func (p *parser) take(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case word == "when":
		return p.scene(strings.TrimSpace(rest))
	case strings.HasPrefix(line, "#"):
		return nil
	case len(p.scenes) == 0:
		if strings.TrimSpace(line) == "" {
			return nil
		}
		return fmt.Errorf("this line belongs to no scene; begin one with \"when\"")
	case line == "---":
		p.closeAnswer()
		p.current().answers = append(p.current().answers, answer{})
	case word == ">":
		return p.directive(strings.TrimSpace(rest))
	default:
		p.text = append(p.text, strings.TrimPrefix(line, `\`))
	}
	return nil
}

func (p *parser) current() *scene { return &p.scenes[len(p.scenes)-1] }

func (p *parser) answer() *answer {
	answers := p.current().answers
	return &answers[len(answers)-1]
}

func (p *parser) scene(pattern string) error {
	p.closeAnswer()
	compiled, err := regexp.Compile("(?is)" + pattern)
	if err != nil {
		return fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	p.scenes = append(p.scenes, scene{line: p.line, pattern: compiled, answers: []answer{{}}})
	return nil
}

// closeAnswer gives the text read so far to the answer it belongs to.
func (p *parser) closeAnswer() {
	if len(p.scenes) == 0 {
		return
	}
	p.answer().text = strings.TrimSpace(strings.Join(p.text, "\n"))
	p.text = nil
}

func (p *parser) directive(text string) error {
	verb, rest, _ := strings.Cut(text, " ")
	fields := strings.Fields(rest)
	a := p.answer()
	switch verb {
	case "model":
		p.current().model = strings.TrimSpace(rest)
	case "call":
		name, arguments, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if name == "" {
			return fmt.Errorf("call needs the name of a tool")
		}
		a.calls = append(a.calls, call{name, strings.TrimSpace(arguments)})
	case "fail":
		return p.fault(a, fields)
	case "cut":
		return p.fault(a, append([]string{"cut"}, fields...))
	case "stop":
		a.stop = model.Stop(strings.TrimSpace(rest))
		if a.stop != model.StopMaxTokens && a.stop != model.StopRefusal {
			return fmt.Errorf("stop %q; it is max_tokens or refusal", a.stop)
		}
	case "tokens":
		if _, err := fmt.Sscanf(rest, "%d %d", &a.usage.Input, &a.usage.Output); err != nil {
			return fmt.Errorf("tokens needs two numbers, in and out")
		}
	case "wait":
		var err error
		if a.wait, err = time.ParseDuration(strings.TrimSpace(rest)); err != nil {
			return fmt.Errorf("wait needs a duration, like 100ms")
		}
	case "repeat":
		a.repeat = true
	default:
		return fmt.Errorf("%q is no directive; there are model, call, fail, cut, stop, tokens, wait and repeat", verb)
	}
	return nil
}

// fault reads: KIND [times N] [after DURATION].
func (p *parser) fault(a *answer, fields []string) error {
	if len(fields) == 0 {
		return fmt.Errorf("fail needs a kind, like overloaded")
	}
	f := &fault{kind: model.Kind(fields[0]), times: 1}
	if f.cut = fields[0] == "cut"; f.cut {
		f.kind = model.Broken
	}
	if !known(f.kind) {
		return fmt.Errorf("%q is no kind of failure", fields[0])
	}
	for rest := fields[1:]; len(rest) > 0; rest = rest[2:] {
		var err error
		switch {
		case len(rest) > 1 && rest[0] == "times":
			f.times, err = strconv.Atoi(rest[1])
		case len(rest) > 1 && rest[0] == "after":
			f.after, err = time.ParseDuration(rest[1])
		default:
			return fmt.Errorf("%q is not understood; it is: fail KIND [times N] [after DURATION]", strings.Join(rest, " "))
		}
		if err != nil {
			return err
		}
	}
	a.fault = f
	return nil
}

func known(k model.Kind) bool {
	switch k {
	case model.Overloaded, model.RateLimited, model.Timeout, model.Broken,
		model.Invalid, model.TooLong, model.Unauthorized, model.NotFound:
		return true
	}
	return false
}
