package importer

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Type is the declared type of a column.
type Type string

// The types. BOOLEAN (true, false) is stored as 1 and 0; DATE (2024-05-31) and
// TIMESTAMP (2024-05-31T08:15:00Z and its like) are stored as the text they are.
const (
	Integer   Type = "INTEGER"
	Real      Type = "REAL"
	Boolean   Type = "BOOLEAN"
	Date      Type = "DATE"
	Timestamp Type = "TIMESTAMP"
	Text      Type = "TEXT"
)

// kinds is a set of what values look like. A number counts as one only if it can
// be written back as it was: 007, +5 and 2E5 are more often codes than numbers.
type kinds uint8

const (
	isInteger    kinds = 1 << iota // exact as a float64 too
	isBigInteger                   // 64 bits, beyond what a float64 holds exactly
	isReal
	isBoolean
	isDate
	isTimestamp
	isText
)

// columnType is the narrowest type for a column that has values of these kinds.
// A column without any value is TEXT: nothing can contradict that.
func (k kinds) columnType() Type {
	within := func(set kinds) bool { return k != 0 && k&^set == 0 }
	switch {
	case within(isInteger | isBigInteger):
		return Integer
	case within(isInteger | isReal):
		return Real
	case within(isBoolean):
		return Boolean
	case within(isDate):
		return Date
	case within(isDate | isTimestamp):
		return Timestamp
	}
	return Text
}

// maxExact is the largest integer below which a float64 holds every one.
const maxExact = 1 << 53

// classify returns the one kind of a value, or none for an empty one.
func classify(s string) kinds {
	if s == "" {
		return 0
	}
	switch c := s[0]; {
	case c >= '0' && c <= '9', c == '-', c == '.':
		return classifyNumber(s)
	case strings.EqualFold(s, "true"), strings.EqualFold(s, "false"):
		return isBoolean
	}
	return isText
}

func classifyNumber(s string) kinds {
	digits := strings.TrimPrefix(s, "-")
	whole := len(digits) - len(strings.TrimLeft(digits, "0123456789"))
	rest := digits[whole:]
	switch {
	case whole > 1 && digits[0] == '0':
		return isText
	case rest == "":
		return classifyInteger(s)
	case whole == 4 && rest[0] == '-':
		return classifyTime(s)
	case isDecimal(rest, whole > 0):
		if f, err := strconv.ParseFloat(s, 64); err == nil && !math.IsInf(f, 0) {
			return isReal
		}
	}
	return isText
}

func classifyInteger(s string) kinds {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil, s == "-0":
		return isText
	case n > maxExact || n < -maxExact:
		return isBigInteger
	}
	return isInteger
}

// isDecimal reports whether rest, what follows the whole digits, makes them a real
// number: a fraction, an exponent or both. Without a point the exponent needs its
// sign. The common languages all print it (1e-05, 1e+16), and codes have none (2E5).
func isDecimal(rest string, whole bool) bool {
	point := rest[0] == '.'
	if point {
		after := strings.TrimLeft(rest[1:], "0123456789")
		if !whole && len(after) == len(rest)-1 {
			return false
		}
		rest = after
	}
	if rest == "" {
		return point
	}
	if rest[0] != 'e' && rest[0] != 'E' || !point && !whole {
		return false
	}
	rest = rest[1:]
	signed := rest != "" && (rest[0] == '+' || rest[0] == '-')
	if signed {
		rest = rest[1:]
	}
	return (signed || point) && rest != "" && strings.Trim(rest, "0123456789") == ""
}

// classifyTime knows the ISO forms only: 03/04/2024 is a different day in
// different countries.
func classifyTime(s string) kinds {
	if len(s) == len(time.DateOnly) {
		if _, err := time.Parse(time.DateOnly, s); err == nil {
			return isDate
		}
		return isText
	}
	if len(s) < len("2006-01-02T15:04") {
		return isText
	}
	for _, layout := range []string{
		"2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05",
		"2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00", "2006-01-02T15:04", "2006-01-02 15:04",
	} {
		if layout[10] != s[10] {
			continue
		}
		if _, err := time.Parse(layout, s); err == nil {
			return isTimestamp
		}
	}
	return isText
}

// fit says how a value goes with its column's type.
type fit int

const (
	fits fit = iota
	// conflicts: the value is stored as it is, against the declared type.
	conflicts
	// widens: SQLite would turn the value into another one, so the column cannot keep its type.
	widens
)

// stored returns the value as SQLite will hold it in a column of type t: nil,
// int64, float64 or string. Reading the table back must give exactly this.
func stored(t Type, s string) (any, fit) {
	if s == "" {
		return nil, fits
	}
	if t == Text {
		return s, fits
	}
	kind := classify(s)
	switch {
	case t == Integer && kind&(isInteger|isBigInteger) != 0:
		n, _ := strconv.ParseInt(s, 10, 64)
		return n, fits
	case t == Real && kind&(isInteger|isReal) != 0:
		return parseReal(s), fits
	case t == Integer && kind == isReal:
		return integral(parseReal(s)), conflicts
	case t == Boolean && kind == isBoolean:
		if strings.EqualFold(s, "true") {
			return int64(1), fits
		}
		return int64(0), fits
	case t == Date && kind == isDate, t == Timestamp && kind&(isDate|isTimestamp) != 0:
		return s, fits
	case readsAsNumber(s):
		return nil, widens
	}
	return s, conflicts
}

// parseReal drops the sign of zero, as SQLite does.
func parseReal(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f + 0
}

// integral mirrors the INTEGER affinity of SQLite, which stores 2.0 as 2.
func integral(f float64) any {
	if f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return int64(f)
	}
	return f
}

// readsAsNumber reports whether SQLite's numeric affinity takes the text for a number.
func readsAsNumber(s string) bool {
	s = strings.Trim(s, " \t\n\v\f\r")
	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	if s == "" || s[0] != '.' && (s[0] < '0' || s[0] > '9') {
		return false // ParseFloat would also take inf, nan and the like
	}
	if strings.ContainsAny(s, "xX_pP") {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil || isRange(err)
}

func isRange(err error) bool {
	e, ok := err.(*strconv.NumError)
	return ok && e.Err == strconv.ErrRange
}
