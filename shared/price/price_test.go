package price_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/errand-dev/errand/shared/money"
	"github.com/errand-dev/errand/shared/price"
	"github.com/errand-dev/errand/shared/subagent"
)

func standard(t *testing.T) price.Table {
	t.Helper()
	table, err := price.Default()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTheDefaultTableHasADateAndItsSources(t *testing.T) {
	table := standard(t)
	if len(table.Date) != 10 || len(table.Sources) == 0 || len(table.Models) < 30 {
		t.Errorf("date %q, %d sources, %d models", table.Date, len(table.Sources), len(table.Models))
	}
	if !strings.Contains(table.Models["script"].Note, "Made up") {
		t.Error("the price of the scripted model does not say that it is made up")
	}
}

func TestANameIsFoundWithoutWhatVendorsAddToIt(t *testing.T) {
	table := standard(t)
	for name, want := range map[string]money.USD{
		"claude-opus-5":                                    5,
		"claude-opus-5-5":                                  4,
		"claude-sonnet-4-5-20250929":                       3,
		"claude-sonnet-4@20250514":                         3,
		"claude-3-7-sonnet-latest":                         3,
		"global.anthropic.claude-sonnet-4-5-20250929-v1:0": 3,
		"global.anthropic.claude-opus-5":                   5,
		"gpt-4.1-2025-04-14":                               2,
		"gpt-6-sol":                                        2,
	} {
		if e, ok := table.Find(name); !ok || e.Input != want*money.Dollar {
			t.Errorf("%s: input costs %v, found %v; want %v", name, e.Input, ok, want*money.Dollar)
		}
	}
	if e, ok := table.Find("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0"); !ok || e.Input != 6*money.Cent {
		t.Errorf("an ARN: %v, %v", e.Input, ok)
	}
	if e, ok := table.Find("us.amazon.nova-lite-v1:0"); !ok || e.Input != 6*money.Cent {
		t.Errorf("Nova in a region: %v, %v", e.Input, ok)
	}
	for _, name := range []string{"us.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic.claude-sonnet-4-5-20250929-v1:0"} {
		if e, ok := table.Find(name); !ok || e.Input != 330*money.Cent || e.Output != 1650*money.Cent {
			t.Errorf("%s: %v, %v", name, e.Rates, ok)
		}
	}
	for _, name := range []string{"", "claude-opus-5-7", "claude-opus-4-9-20270101", "gpt-5.9", "gpt-6-sol-pro", "anthropic.", "mistral-large"} {
		if e, ok := table.Find(name); ok {
			t.Errorf("%q has the price %+v", name, e)
		}
	}
	if e, ok := table.Find("", "no-such", "gpt-5-nano"); !ok || e.Input != 5*money.Cent {
		t.Errorf("the first name that is known: %v, %v", e.Input, ok)
	}
}

func TestEachKindOfTokenHasItsPrice(t *testing.T) {
	table := standard(t)
	opus, _ := table.Find("claude-opus-5")
	million := subagent.Usage{Input: 1_000_000, Output: 1_000_000, CacheRead: 1_000_000, CacheWrite: 1_000_000}
	if got := opus.Cost(million); got != 3675*money.Cent {
		t.Errorf("a million of each costs %v", got)
	}
	if got := opus.Cost(subagent.Usage{Input: 1}); got != 5000 {
		t.Errorf("one token costs %d billionths", got)
	}
	nova, _ := table.Find("amazon.nova-micro")
	if got := nova.Cost(subagent.Usage{CacheRead: 3}); got != 27 {
		t.Errorf("three tokens at 8.75 billionths cost %d; want 27, rounded up", got)
	}
	plain, _ := table.Find("gpt-5.6-terra")
	if got := plain.Cost(subagent.Usage{CacheWrite: 1_000_000}); got != 4*money.Dollar {
		t.Errorf("written to a cache without a price of its own: %v", got)
	}
	if got := opus.Ceiling(subagent.Usage{Input: 1_000_000}); got != 625*money.Cent {
		t.Errorf("a prompt that may be written to the cache costs at most %v", got)
	}
	if got := opus.Cost(subagent.Usage{Input: -5}); got != 0 {
		t.Errorf("a negative count costs %v", got)
	}
}

func TestMoreTokensNeverCostLess(t *testing.T) {
	opus, _ := standard(t).Find("claude-opus-5")
	for name, of := range map[string]func(subagent.Usage) money.USD{"cost": opus.Cost, "ceiling": opus.Ceiling} {
		last := money.USD(0)
		for n := int64(1); n > 0; n *= 2 {
			got := of(subagent.Usage{Input: n, Output: n, CacheRead: n, CacheWrite: n})
			if got < last {
				t.Fatalf("the %s of four times %d tokens is %v, that of half as many %v", name, n, got, last)
			}
			last = got
		}
	}
}

func TestALongPromptMakesTheWholeCallDearer(t *testing.T) {
	haiku, _ := standard(t).Find("claude-haiku-5-5")
	short := haiku.Cost(subagent.Usage{Input: 40_000, CacheRead: 60_000, Output: 1_000_000})
	long := haiku.Cost(subagent.Usage{Input: 40_001, CacheRead: 60_000, Output: 1_000_000})
	if short != 5046*money.Cent/100 || long != money.USD(2_523_000_500) {
		t.Errorf("short %v, long %v", short, long)
	}
}

func TestAFileOverridesTheDefaultAndAddsModels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prices.json")
	own := `{"date":"2027-01-02","sources":["our contract"],"models":{"claude-opus-5":{"input":4.5,"output":20},"ours-*":{"input":0.01,"output":0.02}}}`
	if err := os.WriteFile(path, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := price.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if e, _ := table.Find("claude-opus-5"); e.Input != 450*money.Cent || e.CacheRead != e.Input {
		t.Errorf("overridden: %+v", e)
	}
	if e, ok := table.Find("ours-large"); !ok || e.Input != money.Cent {
		t.Errorf("a family: %+v, %v", e, ok)
	}
	if _, ok := table.Find("gpt-6-sol"); !ok || table.Date != "2027-01-02" {
		t.Errorf("the default is gone: %v, date %s", ok, table.Date)
	}
	if again := standard(t); again.Models["claude-opus-5"].Input != 5*money.Dollar {
		t.Error("the default itself was changed")
	}
}

func TestABadFileSaysWhatIsWrongWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prices.json")
	for content, want := range map[string]string{
		`{`:                                "unexpected EOF",
		`{"date":"today"}`:                 "YYYY-MM-DD",
		`{"date":"2027-01-02","model":{}}`: `unknown field "model"`,
		`{"date":"2027-01-02","models":{"m":{"input":"1","output":1}}}`:         "no amount in US dollars",
		`{"date":"2027-01-02","models":{"m":{"input":-1,"output":1}}}`:          "no amount in US dollars",
		`{"date":"2027-01-02","models":{"m":{}}}`:                               `model "m" costs nothing`,
		`{"date":"2027-01-02","models":{"m":{"input":10001,"output":1}}}`:       "over $10000.00 per million",
		`{"date":"2027-01-02","models":{"m":{"input":1,"output":1,"above":5}}}`: "belong together",
		`{"date":"2027-01-02","models":{}} {}`:                                  "more than one",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := price.Load(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want %q and the file's name", content, err, want)
		}
	}
	if _, err := price.Load(path + "-none"); err == nil {
		t.Error("a file that is not there was read")
	}
}
