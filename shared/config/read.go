package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/errand-dev/errand/shared/subagent"
)

// reader reads variables and collects what is wrong with them.
type reader struct {
	getenv func(string) string
	// isTarget: the schedules invoke this very function.
	isTarget bool
	wrong    []error
}

func (r *reader) refuse(name, format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Errorf("%s %s", name, fmt.Sprintf(format, args...)))
}

func (r *reader) err() error {
	if len(r.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("reading the environment: %w", errors.Join(r.wrong...))
}

func (r *reader) text(name string) string {
	value := r.getenv(name)
	if value == "" {
		r.refuse(name, "is not set")
	}
	return value
}

func (r *reader) optional(name, standard string) string { return cmp.Or(r.getenv(name), standard) }

func (r *reader) url(name string) string {
	value := r.text(name)
	if value == "" {
		return ""
	}
	if u, err := url.Parse(value); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		r.refuse(name, "is %q, which is no URL", value)
	}
	return value
}

func (r *reader) duration(name string, standard, least, most time.Duration) time.Duration {
	text := r.getenv(name)
	if text == "" {
		return standard
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		r.refuse(name, "is %q; it must be a duration between %v and %v", text, least, most)
	}
	return d
}

func (r *reader) number(name string, standard, least, most int) int {
	text := r.getenv(name)
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		r.refuse(name, "is %q; it must be a number between %d and %d", text, least, most)
	}
	return n
}

func (r *reader) boolean(name string, standard bool) bool {
	text := r.getenv(name)
	if text == "" {
		return standard
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		r.refuse(name, "is %q; it must be true or false", text)
	}
	return b
}

func (r *reader) level() slog.Level {
	var level slog.Level
	if text := r.optional(LogLevel, "info"); level.UnmarshalText([]byte(text)) != nil {
		r.refuse(LogLevel, "is %q; it must be debug, info, warn or error", text)
	}
	return level
}

func (r *reader) cadence() subagent.Cadence {
	text := r.getenv(Cadence)
	if text == "" {
		return subagent.DefaultCadence
	}
	var c subagent.Cadence
	for part := range strings.SplitSeq(text, ",") {
		d, err := time.ParseDuration(strings.TrimSpace(part))
		if err != nil || d < time.Second {
			r.refuse(Cadence, "is %q; it must be a list of durations of a second or more, such as 5s,15s,30s,2m", text)
			return nil
		}
		c = append(c, d)
	}
	return c
}

// schedules reads all four variables, or none.
func (r *reader) schedules(c subagent.Cadence) Schedules {
	names := []string{ScheduleGroup, ScheduleRole, ScheduleDead}
	if !r.isTarget {
		names = append(names, ScheduleTarget)
	}
	if !slices.ContainsFunc(names, func(name string) bool { return r.getenv(name) != "" }) {
		if len(c) > 0 && slices.Max(c) > longestDelay {
			r.refuse(Cadence, "has a pause over %v, which needs schedules: set %s", longestDelay, strings.Join(names, ", "))
		}
		return Schedules{}
	}
	s := Schedules{Group: r.text(ScheduleGroup), RoleARN: r.text(ScheduleRole), DeadLetterARN: r.text(ScheduleDead)}
	if r.isTarget {
		s.TargetARN = r.ownARN(s.RoleARN)
	} else {
		s.TargetARN = r.text(ScheduleTarget)
	}
	return s
}

// ownARN composes this function's ARN of what Lambda tells it, and of the account that
// the role is in.
func (r *reader) ownARN(role string) string {
	region, name := r.text("AWS_REGION"), r.text("AWS_LAMBDA_FUNCTION_NAME")
	// arn:aws:iam::123456789012:role/name
	parts := strings.SplitN(role, ":", 6)
	if len(parts) < 6 || parts[0] != "arn" {
		if role != "" {
			r.refuse(ScheduleRole, "is %q, which is no ARN", role)
		}
		return ""
	}
	return fmt.Sprintf("arn:%s:lambda:%s:%s:function:%s", parts[1], region, parts[4], name)
}
