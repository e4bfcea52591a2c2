// Package price knows what model calls cost: a dated table of the vendors' list prices
// that a deployment overrides with a file of its own.
//
// A name is looked up as it stands; without the prefixes of Bedrock (an ARN's, a region's
// profile, the vendor); and without the date or version behind it. "us.anthropic.claude-opus-5" and
// "claude-opus-5-20260724" are claude-opus-5; claude-opus-5-7 is nothing that we know, and
// has no price. An entry "family*" is for every name that begins so.
package price

import (
	"bytes"
	_ "embed" // the default table
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
	"strings"

	"github.com/errand-dev/errand/shared/money"
	"github.com/errand-dev/errand/shared/subagent"
)

// Table is a price list.
type Table struct {
	// Date is when the prices were looked up, YYYY-MM-DD.
	Date    string           `json:"date"`
	Note    string           `json:"note,omitempty"`
	Sources []string         `json:"sources,omitempty"`
	Models  map[string]Entry `json:"models"`
}

// Entry is what one model costs.
type Entry struct {
	Rates
	// Above is the size of a prompt, in tokens, over which a whole call costs Long; zero
	// means that there is no such size.
	Above int64  `json:"above,omitempty"`
	Long  Rates  `json:"long,omitzero"`
	Note  string `json:"note,omitempty"`
}

// Rates are prices of a million tokens. Without a price of its own what is read from or
// written to the cache costs as other input does.
type Rates struct {
	Input      money.USD `json:"input"`
	Output     money.USD `json:"output"`
	CacheRead  money.USD `json:"cache_read,omitempty"`
	CacheWrite money.USD `json:"cache_write,omitempty"`
}

//go:embed prices.json
var standard []byte

// Default returns the table that comes with Errand.
func Default() (Table, error) { return parse(standard) }

// Load returns the default table with the entries of the file over it, which has the
// same form. An empty path means the default alone.
func Load(path string) (Table, error) {
	table, err := Default()
	if err != nil || path == "" {
		return table, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return table, fmt.Errorf("reading the prices: %w", err)
	}
	own, err := parse(raw)
	if err != nil {
		return table, fmt.Errorf("reading the prices in %s: %w", path, err)
	}
	table.Date, table.Note = own.Date, own.Note
	table.Sources = append(table.Sources, own.Sources...)
	maps.Copy(table.Models, own.Models)
	return table, nil
}

var (
	dateForm = regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)
	// versions are what vendors append to the name of a model: a date, or Bedrock's -v1:0.
	versions = regexp.MustCompile(`(-\d{8}|-\d{4}-\d\d-\d\d|-latest|@\d{8})?(-v\d+(:\d+)*)?$`)
	// regions are the inference profiles of Bedrock.
	regions = regexp.MustCompile(`^(us|eu|apac|jp|au|ca|us-gov)\.`)
)

// highest keeps what a call costs far from what an amount can hold.
const highest = 10_000 * money.Dollar

func parse(raw []byte) (Table, error) {
	var t Table
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return t, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return t, errors.New("there is more than one JSON value")
	}
	if !dateForm.MatchString(t.Date) {
		return t, fmt.Errorf(`"date" is %q; it says when the prices were looked up, as YYYY-MM-DD`, t.Date)
	}
	for name, e := range t.Models {
		if e.Input == 0 && e.Output == 0 {
			return t, fmt.Errorf("model %q costs nothing; give input and output, in US dollars per million tokens", name)
		}
		if max(e.Input, e.Output, e.CacheRead, e.CacheWrite, e.Long.Input, e.Long.Output, e.Long.CacheRead, e.Long.CacheWrite) > highest {
			return t, fmt.Errorf("model %q costs over %v per million tokens", name, highest)
		}
		if (e.Above != 0) != (e.Long != Rates{}) || e.Above < 0 {
			return t, fmt.Errorf(`model %q: "above" and "long" belong together`, name)
		}
		e.Rates, e.Long = e.complete(), e.Long.complete()
		t.Models[name] = e
	}
	return t, nil
}

func (r Rates) complete() Rates {
	if r.CacheRead == 0 {
		r.CacheRead = r.Input
	}
	if r.CacheWrite == 0 {
		r.CacheWrite = r.Input
	}
	return r
}

// Find returns the entry of the first of the names that has one. Claude in a region of
// Bedrock costs a tenth more than its list price; where it does not (the models before
// Claude 4.5), the estimate is too high.
func (t Table) Find(names ...string) (Entry, bool) {
	for _, name := range names {
		if e, ok := t.entry(name); ok {
			return e, true
		}
		if strings.HasPrefix(name, "arn:") {
			name = name[strings.LastIndexByte(name, '/')+1:]
		}
		base := strings.TrimPrefix(name, "global.")
		base = regions.ReplaceAllString(base, "")
		if e, ok := t.entry(base); ok {
			return e, true
		}
		claude, onBedrock := strings.CutPrefix(base, "anthropic.")
		e, ok := t.entry(claude)
		switch {
		case !onBedrock || !ok:
		case strings.HasPrefix(name, "global."):
			return e, true
		default:
			e.Rates, e.Long = e.premium(), e.Long.premium()
			return e, true
		}
	}
	return Entry{}, false
}

func (r Rates) premium() Rates {
	return Rates{r.Input + r.Input/10, r.Output + r.Output/10, r.CacheRead + r.CacheRead/10, r.CacheWrite + r.CacheWrite/10}
}

// entry looks a name up as it stands, without its version, then by the longest family.
func (t Table) entry(name string) (Entry, bool) {
	if e, ok := t.Models[name]; ok {
		return e, true
	}
	if e, ok := t.Models[versions.ReplaceAllString(name, "")]; ok {
		return e, true
	}
	for n := len(name); n > 0; n-- {
		if e, ok := t.Models[name[:n]+"*"]; ok {
			return e, true
		}
	}
	return Entry{}, false
}

// Cost is what a call of that usage costs, rounded up per kind of token.
func (e Entry) Cost(u subagent.Usage) money.USD {
	r := e.Rates
	if e.Above > 0 && u.Prompt() > e.Above {
		r = e.Long
	}
	return part(u.Input, r.Input) + part(u.Output, r.Output) + part(u.CacheRead, r.CacheRead) + part(u.CacheWrite, r.CacheWrite)
}

// Ceiling is what a call costs at most of which only the size is known: its whole prompt
// may be written to the cache, or read from it.
func (e Entry) Ceiling(u subagent.Usage) money.USD {
	most := e
	most.Input = max(e.Input, e.CacheRead, e.CacheWrite)
	most.Long.Input = max(e.Long.Input, e.Long.CacheRead, e.Long.CacheWrite)
	return most.Cost(u)
}

const million = 1_000_000

// dearest is what one kind of token costs at most: four of them add up to an amount.
const dearest = math.MaxInt64 / 4

func part(tokens int64, perMillion money.USD) money.USD {
	tokens = max(tokens, 0)
	if perMillion > 0 && tokens/million >= int64(dearest/perMillion) {
		return dearest
	}
	return money.USD(tokens/million)*perMillion + (money.USD(tokens%million)*perMillion+million-1)/million
}
