package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/schedule"
)

// firings lists what follows after a time, with offsets.
func firings(t *testing.T, expression, zone, after string, n int) []string {
	t.Helper()
	plan, err := schedule.Parse(expression, zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, after)
	if err != nil {
		t.Fatal(err)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	anchor := at
	var list []string
	for range n {
		at = plan.Next(at, anchor)
		if at.IsZero() {
			return append(list, "never")
		}
		list = append(list, at.In(location).Format("Mon 2006-01-02T15:04:05Z07:00"))
	}
	return list
}

func TestAnExpressionFiresWhenItSays(t *testing.T) {
	t.Parallel()
	const newYork, berlin, lordHowe = "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"
	for name, c := range map[string]struct {
		expression, zone, after string
		want                    []string
	}{
		"a rate counts from its anchor": {"rate(90 minutes)", "", "2026-11-30T10:00:07Z",
			[]string{"Mon 2026-11-30T11:30:07Z", "Mon 2026-11-30T13:00:07Z"}},
		"a rate of days is of 24 hours, whatever the clocks do": {"rate(1 day)", newYork, "2026-03-07T09:00:00-05:00",
			[]string{"Sun 2026-03-08T10:00:00-04:00", "Mon 2026-03-09T10:00:00-04:00"}},
		"at fires once, by the clocks of its zone": {"at(2026-12-24T18:00:00)", berlin, "2026-11-30T00:00:00Z",
			[]string{"Thu 2026-12-24T18:00:00+01:00", "never"}},
		"at in the past never fires": {"at(2026-11-29T18:00:00)", "", "2026-11-30T00:00:00Z", []string{"never"}},
		"at in a gap is as long after the jump": {"at(2026-03-08T02:30:00)", newYork, "2026-01-01T00:00:00Z",
			[]string{"Sun 2026-03-08T03:30:00-04:00", "never"}},
		"at in a repeat is the first one": {"at(2026-11-01T01:30:00)", newYork, "2026-01-01T00:00:00Z",
			[]string{"Sun 2026-11-01T01:30:00-04:00", "never"}},
		"a cron on weekdays by name": {"cron(0 9 ? * MON-FRI *)", berlin, "2026-12-03T09:00:00+01:00",
			[]string{"Fri 2026-12-04T09:00:00+01:00", "Mon 2026-12-07T09:00:00+01:00"}},
		"weekdays count from Sunday = 1": {"cron(15 10 ? * 1,7 *)", "", "2026-11-30T00:00:00Z",
			[]string{"Sat 2026-12-05T10:15:00Z", "Sun 2026-12-06T10:15:00Z"}},
		"a range of numbered weekdays, with a step": {"cron(0 0 ? * 2-6/2 *)", "", "2026-11-30T00:00:00Z",
			[]string{"Wed 2026-12-02T00:00:00Z", "Fri 2026-12-04T00:00:00Z", "Mon 2026-12-07T00:00:00Z"}},
		"days of the month and months": {"cron(0/30 8 1,15 jan,JUN ? *)", "", "2026-11-30T00:00:00Z",
			[]string{"Fri 2027-01-01T08:00:00Z", "Fri 2027-01-01T08:30:00Z", "Fri 2027-01-15T08:00:00Z"}},
		"a day that few months have": {"cron(0 0 31 * ? *)", "", "2026-01-31T00:00:00Z",
			[]string{"Tue 2026-03-31T00:00:00Z", "Sun 2026-05-31T00:00:00Z"}},
		"a day that no month has never fires": {"cron(0 0 30 2 ? *)", "", "2026-01-01T00:00:00Z", []string{"never"}},
		"a leap day":                          {"cron(0 0 29 2 ? *)", "", "2026-01-01T00:00:00Z", []string{"Tue 2028-02-29T00:00:00Z"}},
		"a time that the clocks skip does not fire": {"cron(30 2 * * ? *)", newYork, "2026-03-07T00:00:00-05:00",
			[]string{"Sat 2026-03-07T02:30:00-05:00", "Mon 2026-03-09T02:30:00-04:00"}},
		"a time that comes twice fires the first time": {"cron(30 1 * * ? *)", newYork, "2026-10-31T12:00:00-04:00",
			[]string{"Sun 2026-11-01T01:30:00-04:00", "Mon 2026-11-02T01:30:00-05:00"}},
		"after the first of two, also from between them": {"cron(30 1 * * ? *)", newYork, "2026-11-01T01:10:00-05:00",
			[]string{"Mon 2026-11-02T01:30:00-05:00"}},
		"every hour named by a star goes on in the repeated one": {"cron(0/30 * * * ? *)", newYork, "2026-11-01T01:00:00-04:00",
			[]string{"Sun 2026-11-01T01:30:00-04:00", "Sun 2026-11-01T01:00:00-05:00", "Sun 2026-11-01T01:30:00-05:00", "Sun 2026-11-01T02:00:00-05:00"}},
		"every hour named by a star leaps over the gap": {"cron(0/30 * * * ? *)", newYork, "2026-03-08T01:30:00-05:00",
			[]string{"Sun 2026-03-08T03:00:00-04:00", "Sun 2026-03-08T03:30:00-04:00"}},
		"every hour of a day whose midnight is skipped": {"cron(30 * ? * SUN *)", "Asia/Beirut", "2027-03-27T12:00:00+02:00",
			[]string{"Sun 2027-03-28T01:30:00+03:00", "Sun 2027-03-28T02:30:00+03:00"}},
		"every hour, at the change itself": {"cron(0 * 28 3 ? *)", "Asia/Beirut", "2027-03-27T12:00:00+02:00",
			[]string{"Sun 2027-03-28T01:00:00+03:00", "Sun 2027-03-28T02:00:00+03:00"}},
		"every hour of a day whose midnight comes twice": {"cron(30 * 7 11 ? *)", "America/Havana", "2027-11-06T12:00:00-04:00",
			[]string{"Sun 2027-11-07T00:30:00-04:00", "Sun 2027-11-07T00:30:00-05:00", "Sun 2027-11-07T01:30:00-05:00"}},
		"every hour, with a change of half an hour": {"cron(15,45 * * * ? *)", lordHowe, "2026-04-05T01:00:00+11:00",
			[]string{"Sun 2026-04-05T01:15:00+11:00", "Sun 2026-04-05T01:45:00+11:00", "Sun 2026-04-05T01:45:00+10:30", "Sun 2026-04-05T02:15:00+10:30"}},
		"every hour of a day that never comes": {"cron(0 * 30 2 ? *)", newYork, "2026-01-01T00:00:00Z", []string{"never"}},
		"a change of half an hour": {"cron(45 1 * * ? *)", lordHowe, "2026-04-03T12:00:00+11:00",
			[]string{"Sat 2026-04-04T01:45:00+11:00", "Sun 2026-04-05T01:45:00+11:00", "Mon 2026-04-06T01:45:00+10:30"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, firings(t, c.expression, c.zone, c.after, len(c.want))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestWhatAnExpressionCannotSayIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	for expression, says := range map[string]string{
		"":                              "at(...), rate(...) or cron(...)",
		"5 * * * *":                     "at(...), rate(...) or cron(...)",
		"every(5 minutes)":              "at(...), rate(...) or cron(...)",
		"rate(5 minutes":                "at(...), rate(...) or cron(...)",
		"@every 5m":                     "at(...), rate(...) or cron(...)",
		"rate(0 minutes)":               "one minute at least",
		"rate(30 seconds)":              "one minute at least",
		"rate(1.5 hours)":               "whole number",
		"rate(367 days)":                "366 days at most",
		"rate(99999999999999999 days)":  "366 days at most",
		"at(2026-12-24)":                "yyyy-mm-ddThh:mm:ss",
		"at(2026-12-24T18:00:00Z)":      "without an offset",
		"at(2026-02-30T18:00:00)":       "yyyy-mm-ddThh:mm:ss",
		"cron(0 9 * * ?)":               "5 fields; it takes six",
		"cron(0 9 * * ? 2027)":          "only * is possible, give ends_at",
		"cron(0 9 * * ? 2026,2027)":     "only * is possible, give ends_at",
		"cron(0 9 L * ? *)":             "not supported",
		"cron(0 9 15W * ? *)":           "not supported",
		"cron(0 9 ? * 6L *)":            "not supported",
		"cron(0 9 ? * MON#2 *)":         "not supported",
		"cron(0 9 * * * *)":             "exactly one of day-of-month and day-of-week must be ?",
		"cron(0 9 ? * ? *)":             "exactly one of day-of-month and day-of-week must be ?",
		"cron(0 9 1 * MON *)":           "exactly one of day-of-month and day-of-week must be ?",
		"cron(? 9 * * ? *)":             "only day-of-month and day-of-week can be ?",
		"cron(0 9 ? * 0 *)":             "counts from 1 (Sunday) to 7",
		"cron(0 9 ? * 8 *)":             "counts from 1 (Sunday) to 7",
		"cron(60 9 * * ? *)":            "above maximum",
		"cron(0 9 ? * SATURDAY *)":      "SATURDAY",
		"cron(0/0 9 * * ? *)":           "positive",
		"cron(TZ=UTC 0 9 * * ? *)":      "7 fields",
		"cron(0 9 ? * FRI-MON *)":       "beyond end",
		"cron(0 9 * * ? *) cron(x)":     "six",
		"rate(5 minutes) and then some": "at(...), rate(...) or cron(...)",
	} {
		_, err := schedule.Parse(expression, "")
		if !errors.Is(err, schedule.ErrExpression) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want it to say %q", expression, err, says)
		}
	}
	for _, zone := range []string{"Local", "Mars/Olympus", "+02:00", "../etc/passwd"} {
		if _, err := schedule.Parse("rate(1 hour)", zone); !errors.Is(err, schedule.ErrZone) {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
}

// The next firing is always later, and nothing is between the two: whoever asks from there
// gets the same answer.
func TestTheNextFiringIsTheFirstOne(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{"cron(7/13 * * * ? *)", "cron(0/20 1-3 ? * SUN,MON *)", "rate(7 minutes)"} {
		plan, err := schedule.Parse(expression, "Europe/London")
		if err != nil {
			t.Fatal(err)
		}
		anchor := time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC)
		for at := anchor; at.Before(anchor.Add(36 * time.Hour)); at = at.Add(5 * time.Minute) {
			next := plan.Next(at, anchor)
			if !next.After(at) {
				t.Fatalf("%s: after %v comes %v", expression, at, next)
			}
			if again := plan.Next(next.Add(-time.Millisecond), anchor); !again.Equal(next) {
				t.Fatalf("%s: from %v it is %v, from just before that %v", expression, at, next, again)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"rate(5 minutes)", "at(2026-12-24T18:00:00)", "cron(0 9 ? * 2-6/2 *)", "cron(0 9 L * ? *)", "cron()"} {
		f.Add(seed)
	}
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, expression string) {
		plan, err := schedule.Parse(expression, "America/New_York")
		if err != nil {
			return
		}
		if next := plan.Next(at, at); !next.IsZero() && !next.After(at) {
			t.Errorf("%q fires at %v after %v", expression, next, at)
		}
	})
}
