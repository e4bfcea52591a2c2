// Package money holds amounts of money as whole numbers, so that sums are exact.
package money

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// USD is an amount in billionths of a US dollar: 3 * money.Dollar, 50 * money.Cent.
type USD int64

// Units.
const (
	Cent   USD = 1e7
	Dollar USD = 100 * Cent
)

// decimals is how many digits a dollar has behind the point.
const decimals = 9

// ErrAmount is wrapped by every refusal of a text that is no amount.
var ErrAmount = errors.New("no amount in US dollars")

// Parse reads a decimal number of dollars, such as 2.50: not negative, no exponent, at
// most 9 digits behind the point. Errors wrap ErrAmount.
func Parse(text string) (USD, error) {
	whole, fraction, pointed := strings.Cut(text, ".")
	if whole == "" || pointed && fraction == "" || len(fraction) > decimals || !digits(whole) || !digits(fraction) {
		return 0, fmt.Errorf("%w: %q; it is a number like 2.50 with at most %d digits behind the point", ErrAmount, text, decimals)
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", decimals-len(fraction)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is too large; at most %d dollars", ErrAmount, text, math.MaxInt64/int64(Dollar))
	}
	return USD(n), nil
}

func digits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}

// decimal writes the amount exactly, without trailing zeros.
func (u USD) decimal() string {
	sign, n := "", uint64(u)
	if u < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%09d", sign, n/uint64(Dollar), n%uint64(Dollar))
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// String shows the amount for people: $2.50, and as many digits as a small one needs.
func (u USD) String() string {
	text := u.decimal()
	if _, fraction, _ := strings.Cut(text, "."); len(fraction) < 2 {
		if fraction == "" {
			text += "."
		}
		text += strings.Repeat("0", 2-len(fraction))
	}
	if sign, ok := strings.CutPrefix(text, "-"); ok {
		return "-$" + sign
	}
	return "$" + text
}

// MarshalJSON writes a number of dollars, exactly.
func (u USD) MarshalJSON() ([]byte, error) { return []byte(u.decimal()), nil }

// UnmarshalJSON reads what Parse reads, from a JSON number.
func (u *USD) UnmarshalJSON(raw []byte) error {
	var n json.Number
	if err := json.Unmarshal(raw, &n); err != nil || raw[0] == '"' {
		return fmt.Errorf("%w: %s", ErrAmount, raw)
	}
	amount, err := Parse(n.String())
	if err != nil {
		return err
	}
	*u = amount
	return nil
}
