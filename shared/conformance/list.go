package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/errand-dev/errand/shared/platform"
)

// list checks ranges of one partition.
func (s Suite) list(t *testing.T) {
	sorts := []string{"a", "run", "run#", "run#1", "run#10", "run#2", "run#2#step#1", "run$", "run_1", "runx", "Run#1", "run#é", "run#世", "run#🚀", "run%"}
	ascending := slices.Sorted(slices.Values(sorts)) // Go compares strings by bytes
	descending := slices.Clone(ascending)
	slices.Reverse(descending)
	filter := func(sorts []string, keep func(string) bool) (kept []string) {
		for _, sort := range sorts {
			if keep(sort) {
				kept = append(kept, sort)
			}
		}
		return kept
	}
	run := func(sort string) bool { return strings.HasPrefix(sort, "run#") }
	cases := []struct {
		name  string
		query platform.Query
		want  []string
	}{
		{"a list without a prefix is the whole partition in byte order", platform.Query{}, ascending},
		{"a descending list is the reverse", platform.Query{Descending: true}, descending},
		{"a list with a prefix has only keys that begin with it", platform.Query{Prefix: "run#"}, filter(ascending, run)},
		{"a prefix is text, not a pattern", platform.Query{Prefix: "run_"}, []string{"run_1"}},
		{"a percent sign in a prefix is text", platform.Query{Prefix: "run%"}, []string{"run%"}},
		{"a prefix that no key has gives none", platform.Query{Prefix: "zz"}, nil},
		{"a prefix may be a whole key", platform.Query{Prefix: "run#2"}, []string{"run#2", "run#2#step#1"}},
		{"a prefix may end in a letter of several bytes", platform.Query{Prefix: "run#é"}, []string{"run#é"}},
		{"a list begins strictly after a key", platform.Query{Prefix: "run#", After: "run#10"},
			filter(ascending, func(s string) bool { return run(s) && s > "run#10" })},
		{"after need not name a stored key", platform.Query{Prefix: "run#", After: "run#15"},
			filter(ascending, func(s string) bool { return run(s) && s > "run#15" })},
		{"after works without a prefix", platform.Query{After: "run#2"},
			filter(ascending, func(s string) bool { return s > "run#2" })},
		{"after works downwards", platform.Query{Prefix: "run#", After: "run#2", Descending: true},
			filter(descending, func(s string) bool { return run(s) && s < "run#2" })},
		{"after below the prefix changes nothing upwards", platform.Query{Prefix: "run#", After: "a"}, filter(ascending, run)},
		{"after above the prefix leaves nothing upwards", platform.Query{Prefix: "run#", After: "runx"}, nil},
		{"after above the prefix changes nothing downwards", platform.Query{Prefix: "run#", After: "runx", Descending: true}, filter(descending, run)},
		{"after the last key there is nothing", platform.Query{After: ascending[len(ascending)-1]}, nil},
		{"a limit cuts an ascending list", platform.Query{Prefix: "run#", Limit: 2}, filter(ascending, run)[:2]},
		{"a limit cuts a descending list", platform.Query{Prefix: "run#", Limit: 2, Descending: true}, filter(descending, run)[:2]},
		{"after and limit make pages", platform.Query{After: ascending[3], Limit: 4}, ascending[4:8]},
	}
	var sentences []sentence
	for _, c := range cases {
		sentences = append(sentences, sentence{c.name, func(e *env) {
			bySort := make(map[string]platform.Item)
			for _, item := range e.putAll(sorts...) {
				bySort[item.Key.Sort] = item
				c.query.Partition = item.Key.Partition
			}
			var want []platform.Item
			for _, sort := range c.want {
				want = append(want, bySort[sort])
			}
			e.wantList(c.query, want)
		}})
	}
	s.run(t, append(sentences,
		sentence{"a list has only its own partition", func(e *env) {
			partition := e.partition()
			for _, other := range []string{partition, partition + "x", partition + "#"} {
				e.must(e.Store.Put(e.Context(), platform.Item{Key: platform.Key{Partition: other, Sort: "a"}, Version: 1, Body: []byte(`{}`)}))
			}
			e.wantList(platform.Query{Partition: partition}, []platform.Item{{Key: platform.Key{Partition: partition, Sort: "a"}, Version: 1, Body: []byte(`{}`)}})
		}},
		sentence{"a list without a limit ends at 1000", func(e *env) {
			var sorts []string
			for i := range 1003 {
				sorts = append(sorts, fmt.Sprintf("%04d", i))
			}
			items := e.putAll(sorts...)
			e.wantList(platform.Query{Partition: items[0].Key.Partition}, items[:1000])
		}},
		sentence{"a list of large items is complete", func(e *env) {
			partition := e.partition()
			var items []platform.Item
			for i := range 8 {
				items = append(items, platform.Item{Key: platform.Key{Partition: partition, Sort: fmt.Sprint(i)}, Version: 1, Body: []byte(largest())})
				e.must(e.Store.Put(e.Context(), items[i]))
			}
			e.wantList(platform.Query{Partition: partition}, items)
			e.wantMany(items)
		}},
	))
}

// decode keeps numbers as they are written.
func decode(e *env, body []byte) any {
	e.Helper()
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		e.Fatalf("decoding %.80q: %v", body, err)
	}
	return plain(value)
}

// plain gives equal numbers one form.
func plain(value any) any {
	switch v := value.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, err := v.Float64()
		if err != nil {
			return v
		}
		return f
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = plain(v[name])
		}
	}
	return value
}

func (e *env) wantTooLarge(err error) {
	e.Helper()
	if !errors.Is(err, platform.ErrTooLarge) {
		e.Fatalf("got error %v, want %v", err, platform.ErrTooLarge)
	}
}
