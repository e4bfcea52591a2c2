package money_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/errand-dev/errand/shared/money"
)

func TestAmountsAreReadAndWrittenExactly(t *testing.T) {
	for text, want := range map[string]money.USD{
		"0": 0, "2": 2 * money.Dollar, "2.50": 250 * money.Cent, "0.000000001": 1, "0.1": 10 * money.Cent,
		"9223372036.854775807": math.MaxInt64,
	} {
		got, err := money.Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v; want %d", text, got, err, want)
		}
		raw, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var back money.USD
		if err := json.Unmarshal(raw, &back); err != nil || back != want {
			t.Errorf("%s came back as %d, %v", raw, back, err)
		}
	}
}

func TestWhatIsNoAmountIsRefused(t *testing.T) {
	for _, text := range []string{"", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", "$1", "0.0000000001", "9223372036.854775808", "١"} {
		if got, err := money.Parse(text); !errors.Is(err, money.ErrAmount) {
			t.Errorf("Parse(%q) = %d, %v", text, got, err)
		}
	}
	for _, raw := range []string{`"1"`, `null`, `-1`, `1e3`, `{}`} {
		var u money.USD
		if err := json.Unmarshal([]byte(raw), &u); err == nil && raw != "null" {
			t.Errorf("%s was read as %d", raw, u)
		}
	}
}

func TestAnAmountIsShownWithCentsAtLeast(t *testing.T) {
	for amount, want := range map[money.USD]string{
		0: "$0.00", money.Dollar: "$1.00", 150 * money.Cent: "$1.50", 1: "$0.000000001", 12345 * money.Cent / 10: "$12.345",
		-money.Cent: "-$0.01", math.MinInt64: "-$9223372036.854775808",
	} {
		if got := amount.String(); got != want {
			t.Errorf("%d is shown as %s, want %s", int64(amount), got, want)
		}
	}
}
