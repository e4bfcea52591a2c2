package ingress_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/platform"
)

const schedules = "/v1/conversations/c/schedules"

func TestAScheduleIsCreatedShownChangedAndDeleted(t *testing.T) {
	s := open(t, options{idle: true})
	a := s.call("POST", schedules, `{"expression":"cron(0 9 ? * MON-FRI *)","timezone":"Europe/Berlin","trigger":"nightly","ends_at":"2099-01-01T00:00:00Z"}`)
	made := get[api.Schedule](s, a, 201)
	if made.Status != "active" || !made.Enabled || made.NextAt.IsZero() || made.Timezone != "Europe/Berlin" || made.Trigger != "nightly" ||
		!strings.Contains(made.Prompt, `"nightly"`) || made.EndsAt.IsZero() || a.header.Get("Location") != schedules+"/"+made.ID {
		t.Errorf("created %+v at %s", made, a.header.Get("Location"))
	}
	if got := get[api.Schedule](s, s.call("GET", a.header.Get("Location"), ""), 200); got != made {
		t.Errorf("it is shown as %+v", got)
	}
	changed := get[api.Schedule](s, s.call("PATCH", schedules+"/"+made.ID, `{"expression":"rate(2 hours)","prompt":"count","trigger":null,"timezone":null,"ends_at":null}`), 200)
	if changed.Expression != "rate(2 hours)" || changed.Prompt != "count" || changed.Trigger != "" || changed.Timezone != "UTC" || !changed.EndsAt.IsZero() {
		t.Errorf("changed to %+v", changed)
	}
	if off := get[api.Schedule](s, s.call("PATCH", schedules+"/"+made.ID, `{"enabled":false}`), 200); off.Status != "disabled" || !off.NextAt.IsZero() || off.Prompt != "count" {
		t.Errorf("switched off it is %+v", off)
	}
	list := get[api.ScheduleList](s, s.call("GET", schedules, ""), 200)
	if len(list.Schedules) != 1 || list.Schedules[0].ID != made.ID {
		t.Errorf("listed %+v", list)
	}
	get[struct{}](s, s.call("DELETE", schedules+"/"+made.ID, ""), 204)
	s.problem(s.call("DELETE", schedules+"/"+made.ID, ""), 404, "not-found", "")
	if list := get[api.ScheduleList](s, s.call("GET", schedules, ""), 200); len(list.Schedules) != 0 {
		t.Errorf("left are %+v", list)
	}
}

func TestAListOfSchedulesShowsTheBeginningsOfTheirTexts(t *testing.T) {
	s := open(t, options{idle: true})
	long := strings.Repeat("ä", 50_000)
	made := get[api.Schedule](s, s.call("POST", schedules, `{"expression":"rate(1 day)","prompt":"`+long+`"}`), 201)
	list := get[api.ScheduleList](s, s.call("GET", schedules, ""), 200)
	if len(list.Schedules) != 1 || list.Schedules[0].Prompt != long[:2000]+"…" {
		t.Errorf("the list shows %d bytes", len(list.Schedules[0].Prompt))
	}
	if one := get[api.Schedule](s, s.call("GET", schedules+"/"+made.ID, ""), 200); one.Prompt != long || made.Prompt != long {
		t.Errorf("alone it has %d bytes", len(one.Prompt))
	}
}

func TestAScheduleFiresATurnOfItsOwnKind(t *testing.T) {
	s := open(t, options{})
	get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"say hello"}`), 202)
	at := time.Now().UTC().Add(2 * time.Second).Format("2006-01-02T15:04:05")
	get[api.Schedule](s, s.call("POST", schedules, `{"expression":"at(`+at+`)","message":"say it is time"}`), 201)
	deadline := time.Now().Add(20 * time.Second)
	var fired string
	for after := int64(0); fired == "" && time.Now().Before(deadline); {
		page := get[api.EventPage](s, s.call("GET", "/v1/conversations/c/events?wait_ms=1000&after="+strconv.FormatInt(after, 10), ""), 200)
		for _, e := range page.Events {
			if e.Type == "turn.completed" && strings.HasPrefix(e.TurnID, "schedule:") {
				fired = e.TurnID
			}
		}
		after = page.Next
	}
	turn := get[api.Turn](s, s.call("GET", "/v1/conversations/c/turns/"+fired, ""), 200)
	if turn.Kind != "schedule" || turn.Reply != "it is time" {
		t.Errorf("the turn is %+v", turn)
	}
	list := get[api.ScheduleList](s, s.call("GET", schedules, ""), 200).Schedules
	if len(list) != 1 || list[0].Status != "ended" || list[0].LastAt.IsZero() {
		t.Errorf("after it the schedules are %+v", list)
	}
}

func TestAScheduleIsOfItsTenantAndConversation(t *testing.T) {
	s := open(t, options{idle: true})
	made := get[api.Schedule](s, s.call("POST", schedules, `{"expression":"rate(1 day)","prompt":"p"}`), 201)
	for _, c := range []struct{ method, path, tenant string }{
		{"GET", schedules + "/" + made.ID, "other"}, {"DELETE", schedules + "/" + made.ID, "other"},
		{"GET", "/v1/conversations/d/schedules/" + made.ID, "default"},
	} {
		s.problem(s.call(c.method, c.path, "", "Tenant", c.tenant), 404, "not-found", "")
	}
	s.problem(s.call("PATCH", schedules+"/"+made.ID, `{"prompt":"q"}`, "Tenant", "other"), 404, "not-found", "")
	s.problem(s.call("GET", schedules, "", "Tenant", "nobody"), 401, "unauthenticated", "")
	if list := get[api.ScheduleList](s, s.call("GET", schedules, "", "Tenant", "other"), 200); len(list.Schedules) != 0 {
		t.Errorf("another tenant sees %+v", list)
	}
}

func TestAKeyMakesTheSameSchedule(t *testing.T) {
	s := open(t, options{idle: true})
	const body = `{"expression":"rate(1 day)","prompt":"p"}`
	first := s.call("POST", schedules, body, "Idempotency-Key", "k")
	again := s.call("POST", schedules, body, "Idempotency-Key", `"k"`)
	if diff := cmp.Diff(get[api.Schedule](s, first, 201), get[api.Schedule](s, again, 201)); diff != "" || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%v (-first +again)\n%s", again.header, diff)
	}
	s.problem(s.call("POST", schedules, `{"expression":"rate(2 days)","prompt":"p"}`, "Idempotency-Key", "k"), 422, "idempotency-key-reused", "")
	for i := range 19 {
		get[api.Schedule](s, s.call("POST", schedules, body, "Idempotency-Key", strconv.Itoa(i)), 201)
	}
	s.problem(s.call("POST", schedules, body), 409, "too-many-schedules", "")
}

func TestAScheduleThatIsNotRightIsRefused(t *testing.T) {
	s := open(t, options{idle: true})
	made := get[api.Schedule](s, s.call("POST", schedules, `{"expression":"rate(1 day)","prompt":"p"}`), 201)
	for name, c := range map[string]struct {
		body        string
		status      int
		code, field string
	}{
		"nothing":                      {`{}`, 400, "invalid-body", "prompt"},
		"nothing to do":                {`{"expression":"rate(1 day)"}`, 400, "invalid-body", "prompt"},
		"a prompt and a message":       {`{"expression":"rate(1 day)","prompt":"p","message":"m"}`, 400, "invalid-body", "message"},
		"no expression":                {`{"prompt":"p"}`, 422, "invalid-schedule", "expression"},
		"a crontab":                    {`{"expression":"*/5 * * * *","prompt":"p"}`, 422, "invalid-schedule", "expression"},
		"a last Friday":                {`{"expression":"cron(0 9 ? * 6L *)","prompt":"p"}`, 422, "invalid-schedule", "expression"},
		"half a minute":                {`{"expression":"rate(30 seconds)","prompt":"p"}`, 422, "invalid-schedule", "expression"},
		"a moment in the past":         {`{"expression":"at(2020-01-01T00:00:00)","prompt":"p"}`, 422, "invalid-schedule", "expression"},
		"an unknown zone":              {`{"expression":"rate(1 day)","timezone":"Mars","prompt":"p"}`, 422, "invalid-schedule", "timezone"},
		"a trigger that is no name":    {`{"expression":"rate(1 day)","trigger":"a b"}`, 400, "invalid-id", "trigger"},
		"a prompt over 256 KB":         {`{"expression":"rate(1 day)","prompt":"` + strings.Repeat("x", 256<<10+1) + `"}`, 413, "too-large", "prompt"},
		"a typo":                       {`{"expresion":"rate(1 day)","prompt":"p"}`, 400, "unknown-field", "expresion"},
		"an end that is no time":       {`{"expression":"rate(1 day)","prompt":"p","ends_at":"soon"}`, 400, "invalid-body", ""},
		"an end in the past":           {`{"expression":"rate(1 day)","prompt":"p","ends_at":"2020-01-01T00:00:00Z"}`, 422, "invalid-schedule", "expression"},
		"a number for an expression":   {`{"expression":5,"prompt":"p"}`, 400, "invalid-body", "expression"},
		"a text where it must be true": {`{"expression":"rate(1 day)","prompt":"p","enabled":"yes"}`, 400, "invalid-body", "enabled"},
	} {
		t.Run(name, func(t *testing.T) {
			here := *s
			here.t = t
			here.problem(here.call("POST", schedules, c.body), c.status, c.code, c.field)
		})
	}
	for body, want := range map[string]struct {
		status      int
		code, field string
	}{
		`{"prompt":null}`:                 {400, "invalid-body", "prompt"},
		`{"expression":null}`:             {422, "invalid-schedule", "expression"},
		`{"expression":7}`:                {400, "invalid-body", "expression"},
		`{"message":"m"}`:                 {400, "invalid-body", "message"},
		`{"timezone":"Mars"}`:             {422, "invalid-schedule", "timezone"},
		`{"generation":"x"}`:              {400, "unknown-field", "generation"},
		`{"trigger":{"handler":"x"}}`:     {400, "invalid-body", "trigger"},
		`{"ends_at":"2020-01-01T00:00Z"}`: {400, "invalid-body", ""},
	} {
		s.problem(s.call("PATCH", schedules+"/"+made.ID, body), want.status, want.code, want.field)
	}
	if got := get[api.Schedule](s, s.call("GET", schedules+"/"+made.ID, ""), 200); got != made {
		t.Errorf("a refused change made it %+v", got)
	}
	if list := get[api.ScheduleList](s, s.call("GET", schedules, ""), 200); len(list.Schedules) != 1 {
		t.Errorf("refused schedules are there: %+v", list)
	}
}

func TestSchedulesThatAreSwitchedOffCanStillBeListedAndDeleted(t *testing.T) {
	s := open(t, options{idle: true})
	made := get[api.Schedule](s, s.call("POST", schedules, `{"expression":"rate(1 day)","prompt":"p"}`), 201)
	s.Service.Timetable.Frozen = true
	s.problem(s.call("POST", schedules, `{"expression":"rate(1 day)","prompt":"p"}`), 409, "switched-off", "")
	s.problem(s.call("PATCH", schedules+"/"+made.ID, `{"prompt":"q"}`), 409, "switched-off", "")
	get[api.ScheduleList](s, s.call("GET", schedules, ""), 200)
	get[struct{}](s, s.call("DELETE", schedules+"/"+made.ID, ""), 204)
}

func TestClearingAConversationThatHasOnlySchedulesDeletesThem(t *testing.T) {
	s := open(t, options{idle: true})
	s.problem(s.call("DELETE", "/v1/conversations/c", ""), 404, "not-found", "")
	get[api.Schedule](s, s.call("POST", schedules, `{"expression":"rate(1 day)","prompt":"p"}`), 201)
	get[struct{}](s, s.call("DELETE", "/v1/conversations/c", ""), 202)
	if list := get[api.ScheduleList](s, s.call("GET", schedules, ""), 200); len(list.Schedules) != 0 {
		t.Errorf("left are %+v", list)
	}
	if dead, err := s.Receiver().DeadLetters(t.Context(), platform.Ticks, 10); err != nil || len(dead) > 0 {
		t.Errorf("%v %v", dead, err)
	}
}
