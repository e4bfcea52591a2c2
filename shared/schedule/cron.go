package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// parseCron translates EventBridge's six fields to the five that cron knows, and refuses
// what those cannot say.
func parseCron(text string, zone *time.Location) (rule, error) {
	fields := strings.Fields(text)
	if len(fields) != 6 {
		return nil, fmt.Errorf("%w: cron(%s) has %d fields; it takes six: minutes hours day-of-month month day-of-week year", ErrExpression, text, len(fields))
	}
	minutes, hours, dom, month, dow, year := fields[0], fields[1], fields[2], fields[3], strings.ToUpper(fields[4]), fields[5]
	refuse := func(format string, args ...any) (rule, error) {
		return nil, fmt.Errorf("%w: cron(%s): %s", ErrExpression, text, fmt.Sprintf(format, args...))
	}
	switch {
	case year != "*":
		return refuse("the year is %q; only * is possible, give ends_at to stop", year)
	case strings.ContainsAny(strings.ToUpper(dom), "LW"), strings.Contains(dow, "#"), lastDay(dow):
		return refuse("L, W and # are not supported; name the days")
	case (dom == "?") == (dow == "?"):
		return refuse("exactly one of day-of-month and day-of-week must be ?")
	case strings.Contains(minutes+hours+month, "?"):
		return refuse("only day-of-month and day-of-week can be ?")
	}
	dow, err := weekdays(dow)
	if err != nil {
		return refuse("%v", err)
	}
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	spec, err := parser.Parse(strings.Join([]string{minutes, hours, dom, month, dow}, " "))
	if err != nil {
		return refuse("%v", err)
	}
	return calendar{spec: spec, zone: zone, everyHour: hours == "*"}, nil
}

// lastDay reports whether days of the week name the last one of a month, as 6L does.
func lastDay(dow string) bool {
	for part := range strings.SplitSeq(dow, ",") {
		if strings.HasSuffix(part, "L") {
			return true
		}
	}
	return false
}

// weekdays renumbers days of the week: EventBridge counts from Sunday = 1, cron from 0.
func weekdays(field string) (string, error) {
	parts := strings.Split(field, ",")
	for i, part := range parts {
		days, step, stepped := strings.Cut(part, "/")
		ends := strings.Split(days, "-")
		for j, day := range ends {
			n, err := strconv.Atoi(day)
			if err != nil {
				continue // a star, or a name
			}
			if n < 1 || n > 7 {
				return "", fmt.Errorf("day-of-week %d; it counts from 1 (Sunday) to 7", n)
			}
			ends[j] = strconv.Itoa(n - 1)
		}
		parts[i] = strings.Join(ends, "-")
		if stepped {
			parts[i] += "/" + step
		}
	}
	return strings.Join(parts, ","), nil
}
