package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/platform"
)

// Items checks platform.Items.
func (s Suite) Items(t *testing.T) {
	s.run(t, []sentence{
		{"an absent item has its key and version 0", func(e *env) {
			key := platform.Key{Partition: e.partition(), Sort: "absent"}
			e.wantItem(platform.Item{Key: key})
		}},
		{"the first put makes version 1", func(e *env) {
			item := e.newItem("a", `{"n":1}`)
			e.must(e.Store.Put(e.Context(), item))
			e.wantItem(item)
		}},
		{"a put at the next version replaces body and expiry", func(e *env) {
			item := e.newItem("a", `{"n":1,"old":true}`)
			item.Expires = time.Now().Add(time.Hour)
			e.must(e.Store.Put(e.Context(), item))
			e.wantItem(item)
			item.Version, item.Body, item.Expires = 2, []byte(`{"n":2}`), time.Time{}
			e.must(e.Store.Put(e.Context(), item))
			e.wantItem(item)
		}},
		{"a put at any other version changes nothing and returns what is stored", func(e *env) {
			stored := e.newItem("a", `{"n":1}`)
			e.must(e.Store.Put(e.Context(), stored))
			stored.Version, stored.Body = 2, []byte(`{"n":2}`)
			e.must(e.Store.Put(e.Context(), stored))
			for _, version := range []int64{1, 2, 4, 1000} {
				loser := stored
				loser.Version, loser.Body = version, []byte(`{"loser":true}`)
				e.wantSame(e.mustConflict(e.Store.Put(e.Context(), loser)), stored)
				e.wantItem(stored)
			}
		}},
		{"a put over an absent item at a later version conflicts with version 0", func(e *env) {
			item := e.newItem("a", `{"n":1}`)
			item.Version = 2
			e.wantSame(e.mustConflict(e.Store.Put(e.Context(), item)), platform.Item{Key: item.Key})
			e.wantItem(platform.Item{Key: item.Key})
		}},
		{"a put sent again conflicts with its own success", func(e *env) {
			item := e.newItem("a", `{"holder":"token-1","n":{"deep":[1,2,null]}}`)
			for range 3 {
				e.must(e.Store.Put(e.Context(), item))
				e.wantSame(e.mustConflict(e.Store.Put(e.Context(), item)), item)
				item.Version++
			}
		}},
		{"a put of version 0 or less is refused", func(e *env) {
			item := e.newItem("a", `{}`)
			for _, version := range []int64{0, -1} {
				item.Version = version
				if err := e.Store.Put(e.Context(), item); err == nil {
					e.Errorf("put of version %d succeeded", version)
				}
			}
			e.wantItem(platform.Item{Key: item.Key})
		}},
		{"a delete at the stored version removes the item", func(e *env) {
			item := e.newItem("a", `{}`)
			e.must(e.Store.Put(e.Context(), item))
			e.must(e.Store.Delete(e.Context(), item.Key, 1))
			e.wantItem(platform.Item{Key: item.Key})
			e.must(e.Store.Put(e.Context(), item)) // and it starts anew
			e.wantItem(item)
		}},
		{"a delete at another version changes nothing and returns what is stored", func(e *env) {
			item := e.newItem("a", `{"n":1}`)
			e.must(e.Store.Put(e.Context(), item))
			e.wantSame(e.mustConflict(e.Store.Delete(e.Context(), item.Key, 2)), item)
			e.wantItem(item)
		}},
		{"a delete at version 0 removes whatever is there", func(e *env) {
			item := e.newItem("a", `{}`)
			e.must(e.Store.Put(e.Context(), item))
			item.Version = 2
			e.must(e.Store.Put(e.Context(), item))
			e.must(e.Store.Delete(e.Context(), item.Key, 0))
			e.wantItem(platform.Item{Key: item.Key})
		}},
		{"deleting an absent item succeeds at any version", func(e *env) {
			key := platform.Key{Partition: e.partition(), Sort: "absent"}
			e.must(e.Store.Delete(e.Context(), key, 0))
			e.must(e.Store.Delete(e.Context(), key, 7))
		}},
		{"of 64 racing puts of one version exactly one wins", func(e *env) {
			item := e.newItem("a", "")
			for version := int64(1); version <= 3; version++ {
				winners := e.race(64, func(i int) error {
					mine := item
					mine.Version, mine.Body = version, fmt.Appendf(nil, `{"winner":%d}`, i)
					return e.Store.Put(e.Context(), mine)
				})
				if len(winners) != 1 {
					e.Fatalf("version %d has winners %v, want one", version, winners)
				}
				e.wantItem(platform.Item{Key: item.Key, Version: version, Body: fmt.Appendf(nil, `{"winner":%d}`, winners[0])})
			}
		}},
		{"a loser of a race gets the winner's item", func(e *env) {
			item := e.newItem("a", "")
			var mu sync.Mutex
			var seen []platform.Item
			winners := e.race(16, func(i int) error {
				mine := item
				mine.Body = fmt.Appendf(nil, `{"winner":%d}`, i)
				err := e.Store.Put(e.Context(), mine)
				if conflict, ok := errors.AsType[*platform.ConflictError](err); ok {
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, conflict.Stored)
				}
				return err
			})
			if len(winners) != 1 || len(seen) != 15 {
				e.Fatalf("%d winners and %d conflicts, want 1 and 15", len(winners), len(seen))
			}
			for _, stored := range seen {
				e.wantSame(stored, platform.Item{Key: item.Key, Version: 1, Body: fmt.Appendf(nil, `{"winner":%d}`, winners[0])})
			}
		}},
		{"a read sees every write acknowledged before it", func(e *env) {
			item := e.newItem("a", "")
			for version := range int64(20) {
				item.Version, item.Body = version+1, fmt.Appendf(nil, `{"n":%d}`, version)
				e.must(e.Store.Put(e.Context(), item))
				e.wantItem(item)
				e.wantList(platform.Query{Partition: item.Key.Partition}, []platform.Item{item})
			}
		}},
		{"nothing is written under a context that has ended", func(e *env) {
			ctx, cancel := context.WithCancel(e.Context())
			cancel()
			item := e.newItem("a", `{}`)
			if err := e.Store.Put(ctx, item); err == nil {
				e.Error("put succeeded")
			}
			if _, err := e.Store.Get(ctx, item.Key); err == nil {
				e.Error("get succeeded")
			}
			e.wantItem(platform.Item{Key: item.Key})
		}},
	})
	t.Run("bodies", s.bodies)
	t.Run("getmany", s.getMany)
	t.Run("list", s.list)
}

// bodies checks what comes back of a body.
func (s Suite) bodies(t *testing.T) {
	var sentences []sentence
	for name, body := range map[string]string{
		"an empty object":                   `{}`,
		"empty values":                      `{"map":{},"list":[],"text":"","null":null,"no":false,"zero":0}`,
		"nested values":                     `{"a":{"b":[{"c":[[],[{}],null,"x",1,true]}]}}`,
		"integers up to 2^53":               `{"max":9007199254740992,"min":-9007199254740992,"list":[9007199254740991]}`,
		"fractions":                         `{"n":0.1,"small":1e-7,"big":123456789.125}`,
		"unicode":                           `{"text":"Grüße, 世界 🚀 \u0000 \u2028 \" \\ é","ключ":"значение"}`,
		"names that a platform may use":     `{"partition":"x","sort":"y","version":99,"body":"b","expires":1,"pk":"p","sk":"s","ttl":5}`,
		"reserved words and odd names":      `{"status":"s","name":"n","a.b":1,"#x":2,":y":3,"$z":4,"":5," ":6}`,
		"text that looks like another type": `{"a":"1","b":"true","c":"null","d":"2026-11-30T00:00:00Z","e":"AAEC"}`,
		"a body of the largest size":        largest(),
	} {
		sentences = append(sentences, sentence{"a body comes back equal as JSON: " + name, func(e *env) {
			item := e.newItem("a", body)
			e.must(e.Store.Put(e.Context(), item))
			e.wantItem(item)
			e.wantSame(e.mustConflict(e.Store.Put(e.Context(), item)), item)
			e.wantList(platform.Query{Partition: item.Key.Partition}, []platform.Item{item})
		}})
	}
	s.run(t, append(sentences, sentence{"a body over the limit is refused and nothing written", func(e *env) {
		item := e.newItem("a", largest()+" ")
		e.wantTooLarge(e.Store.Put(e.Context(), item))
		e.wantItem(platform.Item{Key: item.Key})
	}}))
}

func (s Suite) getMany(t *testing.T) {
	s.run(t, []sentence{
		{"getting many returns one item per key, in order, absent ones too", func(e *env) {
			items := e.putAll("b", "a", "d")
			absent := platform.Item{Key: platform.Key{Partition: items[0].Key.Partition, Sort: "c"}}
			other := e.newItem("a", `{"other":"partition"}`)
			other.Key.Partition += "#other"
			e.must(e.Store.Put(e.Context(), other))
			e.wantMany([]platform.Item{items[2], absent, items[0], other, items[1]})
		}},
		{"getting many gives the same key twice if asked twice", func(e *env) {
			items := e.putAll("a", "b")
			e.wantMany([]platform.Item{items[1], items[0], items[1]})
		}},
		{"getting none returns none", func(e *env) { e.wantMany(nil) }},
		{"getting many takes 256 keys", func(e *env) {
			var sorts []string
			for i := range 256 {
				sorts = append(sorts, fmt.Sprintf("run#%03d", i))
			}
			items := e.putAll(sorts...)
			slices.Reverse(items)
			e.wantMany(items)
		}},
	})
}

// newItem is an item of version 1 in a partition of its own.
func (e *env) newItem(sort, body string) platform.Item {
	return platform.Item{Key: platform.Key{Partition: e.partition(), Sort: sort}, Version: 1, Body: []byte(body)}
}

// putAll puts items of these sort keys into one partition, several at a time.
func (e *env) putAll(sorts ...string) []platform.Item {
	e.Helper()
	partition := e.partition()
	items := make([]platform.Item, len(sorts))
	for i, sort := range sorts {
		items[i] = platform.Item{Key: platform.Key{Partition: partition, Sort: sort}, Version: 1, Body: fmt.Appendf(nil, `{"i":%d}`, i)}
	}
	const writers = 16
	done := e.race(writers, func(w int) error {
		for i := w; i < len(items); i += writers {
			if err := e.Store.Put(e.Context(), items[i]); err != nil {
				e.Errorf("putting %q: %v", items[i].Key.Sort, err)
				return err
			}
		}
		return nil
	})
	if len(done) != writers {
		e.FailNow()
	}
	return items
}

// race runs n calls at once and returns which of them succeeded.
func (e *env) race(n int, call func(int) error) (winners []int) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			if call(i) == nil {
				mu.Lock()
				defer mu.Unlock()
				winners = append(winners, i)
			}
		})
	}
	close(start)
	wg.Wait()
	return winners
}

// largest is a JSON object of exactly platform.MaxBody bytes.
func largest() string {
	const frame = `{"pad":""}`
	return `{"pad":"` + strings.Repeat("x", platform.MaxBody-len(frame)) + `"}`
}

func (e *env) wantItem(want platform.Item) {
	e.Helper()
	got, err := e.Store.Get(e.Context(), want.Key)
	e.must(err)
	e.wantSame(got, want)
}

func (e *env) wantMany(want []platform.Item) {
	e.Helper()
	keys := make([]platform.Key, len(want))
	for i := range want {
		keys[i] = want[i].Key
	}
	got, err := e.Store.GetMany(e.Context(), keys)
	e.must(err)
	e.wantAll(got, want)
}

func (e *env) wantList(q platform.Query, want []platform.Item) {
	e.Helper()
	got, err := e.Store.List(e.Context(), q)
	e.must(err)
	e.wantAll(got, want)
}

func (e *env) wantAll(got, want []platform.Item) {
	e.Helper()
	if diff := cmp.Diff(keysOf(want), keysOf(got)); diff != "" {
		e.Fatalf("keys (-want +got):\n%s", diff)
	}
	for i := range want {
		e.wantSame(got[i], want[i])
	}
}

// wantSame compares bodies as JSON and expiries to the second, rounded up.
func (e *env) wantSame(got, want platform.Item) {
	e.Helper()
	if got.Key != want.Key || got.Version != want.Version {
		e.Fatalf("got %v at version %d, want %v at version %d", got.Key, got.Version, want.Key, want.Version)
	}
	if want.Exists() {
		if diff := cmp.Diff(decode(e, want.Body), decode(e, got.Body)); diff != "" {
			e.Fatalf("body of %v (-want +got):\n%s", want.Key, diff)
		}
	}
	late := got.Expires.Sub(want.Expires)
	if got.Expires.IsZero() != want.Expires.IsZero() || late < -time.Millisecond || late > time.Second {
		e.Fatalf("%v expires %v, want %v or up to a second later", want.Key, got.Expires, want.Expires)
	}
}

func keysOf(items []platform.Item) []platform.Key {
	keys := make([]platform.Key, 0, len(items))
	for _, item := range items {
		keys = append(keys, item.Key)
	}
	return keys
}
