package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones must be the same on every machine, also one without a zone database

	"github.com/robfig/cron/v3"
)

// ErrExpression is wrapped by every refusal of an expression, ErrZone of a time zone.
var (
	ErrExpression = errors.New("invalid schedule expression")
	ErrZone       = errors.New("unknown time zone")
)

// Plan says when a schedule fires: a parsed expression in its time zone.
type Plan struct{ rule rule }

// rule returns the first moment after a time, zero if there is none. anchor is what
// rates count from.
type rule interface {
	next(after, anchor time.Time) time.Time
}

// Parse reads an expression as EventBridge Scheduler writes it. zone is an IANA name,
// UTC if empty.
//
//	at(2026-12-24T18:00:00)     once, at that local time
//	rate(90 minutes)            every so many minutes, hours or days (of 24 hours)
//	cron(0 9 ? * MON-FRI *)     minutes hours day-of-month month day-of-week year
//
// Errors: ErrExpression, ErrZone.
func Parse(expression, zone string) (Plan, error) {
	location, err := zoneOf(zone)
	if err != nil {
		return Plan{}, err
	}
	form, inner, ok := strings.Cut(strings.TrimSuffix(strings.TrimSpace(expression), ")"), "(")
	if !ok || !strings.HasSuffix(strings.TrimSpace(expression), ")") {
		return Plan{}, fmt.Errorf("%w: %q; it is at(...), rate(...) or cron(...)", ErrExpression, expression)
	}
	inner = strings.TrimSpace(inner)
	var r rule
	switch form {
	case "at":
		r, err = parseOnce(inner, location)
	case "rate":
		r, err = parseRate(inner)
	case "cron":
		r, err = parseCron(inner, location)
	default:
		err = fmt.Errorf("%w: %q; it is at(...), rate(...) or cron(...)", ErrExpression, expression)
	}
	return Plan{r}, err
}

// Next returns the first firing strictly after a time, zero if there is none. A rate
// fires one period after anchor, and from then on in whole periods.
func (p Plan) Next(after, anchor time.Time) time.Time { return p.rule.next(after, anchor) }

func zoneOf(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	location, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("%w: %q; it is an IANA name such as Europe/Berlin", ErrZone, name)
	}
	return location, nil
}

// once fires at one moment.
type once struct{ at time.Time }

func (o once) next(after, _ time.Time) time.Time {
	if o.at.After(after) {
		return o.at
	}
	return time.Time{}
}

func parseOnce(text string, zone *time.Location) (rule, error) {
	wall, err := time.Parse("2006-01-02T15:04:05", text)
	if err != nil {
		return nil, fmt.Errorf("%w: at(%s); it takes yyyy-mm-ddThh:mm:ss, without an offset: the time zone has a field of its own", ErrExpression, text)
	}
	if found := instants(wall, zone); len(found) > 0 {
		return once{found[0]}, nil
	}
	// The clocks skip it. What was meant is as long after the last moment before the jump.
	return once{wall.Add(-offsetAt(wall.Add(-24*time.Hour), zone))}, nil
}

// every fires in a fixed period.
type every struct{ period time.Duration }

// longestRate keeps periods within what arithmetic on times can bear.
const longestRate = 366 * 24 * time.Hour

func (e every) next(after, anchor time.Time) time.Time {
	return anchor.Add((max(after.Sub(anchor), 0)/e.period + 1) * e.period)
}

func parseRate(text string) (rule, error) {
	fields := strings.Fields(text)
	wrong := fmt.Errorf("%w: rate(%s); it takes a whole number and minutes, hours or days, one minute at least and 366 days at most", ErrExpression, text)
	if len(fields) != 2 {
		return nil, wrong
	}
	unit, ok := map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[strings.TrimSuffix(fields[1], "s")]
	n, err := strconv.Atoi(fields[0])
	if !ok || err != nil || n < 1 || n > int(longestRate/unit) {
		return nil, wrong
	}
	return every{time.Duration(n) * unit}, nil
}

// calendar fires when the clocks of a zone match.
type calendar struct {
	spec cron.Schedule
	zone *time.Location
	// everyHour: the hours are a star, so elapsed time counts rather than the clock.
	everyHour bool
}

// next follows EventBridge where clocks change: a time that is skipped does not fire, one
// that comes twice fires the first time. With every hour named by a star the repeated
// hour is an hour like any other; else a job of every five minutes would rest for one.
func (c calendar) next(after, _ time.Time) time.Time {
	if c.everyHour {
		return c.elapsed(after)
	}
	for wall := c.spec.Next(clock(after.In(c.zone))); !wall.IsZero(); wall = c.spec.Next(wall) {
		if found := instants(wall, c.zone); len(found) > 0 && found[0].After(after) {
			return found[0]
		}
	}
	return time.Time{}
}

// elapsed looks from one change of the clocks to the next: in between they run evenly. The
// library by itself loses a day whose midnight is skipped, as in Beirut or Cairo.
func (c calendar) elapsed(after time.Time) time.Time {
	from, within := after, after.In(c.zone)
	for {
		_, offset := within.Zone()
		_, end := within.ZoneBounds()
		next := c.spec.Next(from.In(time.FixedZone("", offset)))
		if next.IsZero() || end.IsZero() || next.Before(end) {
			return next
		}
		from, within = end.Add(-time.Second), end // what fires at the change itself counts
	}
}

// clock is what the clocks show at t, as a time in UTC.
func clock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// instants returns the moments at which the clocks of the zone show wall, in order: none
// if it is skipped, two if it comes twice.
func instants(wall time.Time, zone *time.Location) []time.Time {
	var found []time.Time
	// No offset is a day long, so a day around lie the offsets before and after a change.
	for _, probe := range []time.Time{wall.Add(-24 * time.Hour), wall.Add(24 * time.Hour)} {
		at := wall.Add(-offsetAt(probe, zone)).In(zone)
		if clock(at).Equal(wall) && (len(found) == 0 || !found[0].Equal(at)) {
			found = append(found, at)
		}
	}
	if len(found) == 2 && found[1].Before(found[0]) {
		found[0], found[1] = found[1], found[0]
	}
	return found
}

func offsetAt(t time.Time, zone *time.Location) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}
