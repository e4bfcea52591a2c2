// Package scriptmodel is a model that answers from a script: the default of tests and
// examples. It needs no key and no network, and the same request gets the same answer
// in every process, so it may stand behind a run that is killed and resumed.
//
// A script is text. A line "when PATTERN" begins a scene: the answers to words of the
// user that match the regular expression (case is ignored; no pattern matches anything). The first
// scene that matches is played. Its answers are separated by "---" and given in order;
// which one is due is read from the request: as many as the model has said since those words.
// Words that no scene matches do not count: the scene of the words before them goes on.
// A last scene without a pattern answers them instead.
//
// An agent's words to the model may begin with a <context>, which names the task of each run at
// work; a pattern sees it too. One that ends with $ is about the end, where the user's own words are.
//
//	# Comments begin with a number sign.
//	when capital of (\w+)
//	> call lookup {"country": "{{1}}"}
//	---
//	The capital is {{result}}.
//
// Lines beginning with ">" say more about an answer:
//
//	> call TOOL ARGUMENTS             a call; the arguments may be malformed
//	> fail KIND [times N] [after D]   fails N times (1) with a model.Kind, asking to wait for D
//	> cut [times N]                   breaks off in the middle of the text
//	> stop max_tokens                 or refusal
//	> tokens IN OUT                   what is billed; by default a quarter of the characters
//	> wait D                          takes so long
//	> repeat                          also answers whatever comes later in the scene
//	> model NAME                      the scene is for requests to this model only
//
// In texts and arguments {{1}} is the first group of the pattern, {{result}} what the
// tools last returned, {{ids}} the JSON array of the ids in it, as of subagents that were
// sent off. A backslash at the beginning of a line makes it text.
package scriptmodel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/errand-dev/errand/shared/model"
)

// Model answers from a script. It implements model.Model.
type Model struct {
	name   string
	scenes []scene

	mu sync.Mutex
	// met counts the faults met, by the key of the call.
	met map[string]int
}

// Load reads the script in the file.
func Load(path string) (*Model, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, string(text))
}

// Generate implements model.Model. A request that the script does not foresee is an
// error of kind invalid_request.
func (m *Model) Generate(ctx context.Context, key string, req model.Request, stream func(string)) (model.Response, error) {
	if stream == nil {
		stream = func(string) {}
	}
	a, fill, err := m.find(req)
	if err != nil {
		return model.Response{}, &model.Error{Kind: model.Invalid, Err: err}
	}
	if err := pause(ctx, a.wait); err != nil {
		return model.Response{}, err
	}
	text := fill(a.text, false)
	if f := a.fault; f != nil && m.meets(key, f.times) {
		if f.cut {
			stream(text[:len(text)/2])
		}
		return model.Response{}, &model.Error{Kind: f.kind, After: f.after, Err: errors.New("the script says so")}
	}
	if text != "" {
		stream(text)
	}
	res := model.Response{Text: text, Stop: model.StopEnd, Usage: a.usage, Model: answerer}
	for i, c := range a.calls {
		id := fmt.Sprintf("call-%d-%d", len(req.Messages), i+1)
		res.Calls = append(res.Calls, model.Call{ID: id, Name: c.name, Arguments: json.RawMessage(fill(c.arguments, true))})
		res.Stop = model.StopTools
	}
	if a.stop != "" {
		res.Stop = a.stop
	}
	if res.Usage == (model.Usage{}) {
		res.Usage = model.Usage{Input: int64(size(req) / 4), Output: int64(len(text)/4 + 1)}
	}
	return res, nil
}

// Defaults implements model.Defaulter. The price of the model "script" is made up.
func (m *Model) Defaults() (name string, maxTokens int) { return answerer, maxAnswer }

const (
	answerer = "script"
	// maxAnswer is what an answer is taken to have at most; no script is held to it.
	maxAnswer = 1000
)

// meets reports whether the call under key fails this time.
func (m *Model) meets(key string, times int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.met[key] >= times {
		return false
	}
	m.met[key]++
	return true
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return &model.Error{Kind: model.Ended, Err: context.Cause(ctx)}
	case <-timer.C:
	}
	if ctx.Err() != nil {
		return &model.Error{Kind: model.Ended, Err: context.Cause(ctx)}
	}
	return nil
}

// find returns the answer that is due, and what fills its gaps. The newest words of the
// user that any scene matches decide.
func (m *Model) find(req model.Request) (answer, func(text string, quoted bool) string, error) {
	said := 0
	for i := len(req.Messages) - 1; i >= 0; i-- {
		msg := req.Messages[i]
		if msg.Role == model.Assistant {
			said++
			continue
		}
		if msg.Text == "" {
			continue
		}
		for _, s := range m.scenes {
			groups := s.pattern.FindStringSubmatch(msg.Text)
			if groups == nil || s.model != "" && s.model != req.Model {
				continue
			}
			last := s.answers[len(s.answers)-1]
			switch {
			case said < len(s.answers):
				last = s.answers[said]
			case !last.repeat:
				return answer{}, nil, fmt.Errorf("%s:%d: the scene has %d answers, number %d was asked for", m.name, s.line, len(s.answers), said+1)
			}
			return last, filler(groups, strings.Join(results(req), "\n"), ids(results(req))), nil
		}
	}
	return answer{}, nil, fmt.Errorf("%s: no scene matches the user's words", m.name)
}

// filler replaces {{result}}, {{ids}} and {{1}}; quoted means inside a JSON string.
func filler(groups []string, result, ids string) func(string, bool) string {
	return func(text string, quoted bool) string {
		gaps := []string{"{{result}}", result}
		for i, group := range groups {
			gaps = append(gaps, "{{"+strconv.Itoa(i)+"}}", group)
		}
		if quoted {
			for i := 1; i < len(gaps); i += 2 {
				gaps[i] = inner(gaps[i])
			}
		}
		return strings.NewReplacer(append(gaps, "{{ids}}", ids)...).Replace(text)
	}
}

// inner is text as it stands between the quotes of a JSON string.
func inner(text string) string {
	raw, _ := json.Marshal(text) // a string always encodes
	return string(raw[1 : len(raw)-1])
}

// results is what the tools last returned.
func results(req model.Request) []string {
	var texts []string
	for i := len(req.Messages) - 1; i >= 0 && texts == nil; i-- {
		for _, r := range req.Messages[i].Results {
			texts = append(texts, r.Text)
		}
	}
	return texts
}

// ids is the JSON array of the ids in results.
func ids(results []string) string {
	found := []string{}
	for _, text := range results {
		var r struct {
			ID string `json:"id"`
		}
		if json.Unmarshal([]byte(text), &r) == nil && r.ID != "" {
			found = append(found, r.ID)
		}
	}
	raw, _ := json.Marshal(found) // strings always encode
	return string(raw)
}

func size(req model.Request) int {
	n := len(req.System)
	for _, m := range req.Messages {
		n += len(m.Text)
		for _, r := range m.Results {
			n += len(r.Text)
		}
	}
	return n
}
