package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/errand-dev/errand/shared/api"
)

func TestASchedulesLifeByCommands(t *testing.T) {
	url := server(t)
	code, out, errOut := errand(t, url, "schedules", "add", "cron(0 9 ? * MON-FRI *)", "--timezone", "Europe/Berlin", "--trigger", "nightly", "--json")
	var made api.Schedule
	if err := json.Unmarshal([]byte(out), &made); code != exitOK || err != nil || made.Trigger != "nightly" || made.Timezone != "Europe/Berlin" {
		t.Fatalf("add: %d %q %q %v", code, out, errOut, err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"schedules"}, made.ID},
		{[]string{"schedules", "set", made.ID, "--expression", "rate(2 hours)", "--ends-at", "2099-01-01T00:00:00Z"}, "rate(2 hours)"},
		{[]string{"schedules", "set", made.ID, "--trigger", "", "--prompt", "count the files"}, "count the files"},
		{[]string{"schedules", "set", made.ID, "--ends-at", "", "--disable"}, "disabled"},
		{[]string{"schedules", "set", made.ID, "--enable"}, "active"},
		{[]string{"schedules", "remove", made.ID}, "schedule " + made.ID + " is removed"},
		{[]string{"schedules"}, "no schedules in conversation c1"},
	} {
		code, out, errOut := errand(t, url, test.args...)
		if code != exitOK || !strings.Contains(out, test.want) || errOut != "" {
			t.Errorf("%v: %d %q %q; want %q", test.args, code, out, errOut, test.want)
		}
	}
}

func TestAnAgentIsControlledByCommands(t *testing.T) {
	url := server(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"show", "lab-echo"}, "agent lab-echo is enabled, maintenance off\n"},
		{[]string{"maintenance", "lab-echo", "accept"}, "agent lab-echo is enabled, maintenance accept\n"},
		{[]string{"disable", "lab-echo"}, "agent lab-echo is disabled, maintenance accept\n"},
		{[]string{"maintenance", "lab-echo", "off"}, "agent lab-echo is disabled, maintenance off\n"},
		{[]string{"enable", "lab-echo"}, "agent lab-echo is enabled, maintenance off\n"},
		{[]string{"disable", "lab"}, "agent lab is disabled, maintenance off\n"},
	} {
		code, out, errOut := errand(t, url, append([]string{"agent"}, test.args...)...)
		if code != exitOK || out != test.want || errOut != "" {
			t.Errorf("%v: %d %q %q; want %q", test.args, code, out, errOut, test.want)
		}
	}
	if code, _, errOut := errand(t, url, "send", "say hello"); code != exitFailed || !strings.Contains(errOut, "errand agent show") {
		t.Errorf("a turn for a disabled agent: %d %q", code, errOut)
	}
}

func TestMistakesWithSchedulesAndAgentsSayWhatToDo(t *testing.T) {
	url := server(t)
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a crontab":                {[]string{"schedules", "add", "*/5 * * * *", "--prompt", "p"}, exitUsage, "it is at(...), rate(...) or cron(...)"},
		"nothing to do":            {[]string{"schedules", "add", "rate(1 hour)"}, exitUsage, "needs a prompt, a message or a trigger"},
		"an end that is no time":   {[]string{"schedules", "add", "rate(1 hour)", "--prompt", "p", "--ends-at", "soon"}, exitUsage, "it takes a time such as"},
		"on and off":               {[]string{"schedules", "set", "s-1", "--enable", "--disable"}, exitFailed, "none of the others can be"},
		"no such schedule":         {[]string{"schedules", "remove", "s-1"}, exitFailed, "errand schedules -c c1"},
		"an unknown command":       {[]string{"agent", "stop", "lab"}, exitUsage, "there is no command \"stop\""},
		"no agent":                 {[]string{"agent", "disable"}, exitUsage, "takes one NAME"},
		"an unknown agent":         {[]string{"agent", "disable", "nobody"}, exitFailed, "there are: lab, lab-"},
		"maintenance of a kind":    {[]string{"agent", "maintenance", "lab", "on"}, exitUsage, "off, accept or reject"},
		"one who is no operator":   {[]string{"agent", "disable", "lab", "--token", "another-of-mine-2"}, exitFailed, "use the token of an operator"},
		"help tells of operators":  {[]string{"agent"}, exitOK, ""},
		"help tells of an example": {[]string{"schedules", "add", "--help"}, exitOK, ""},
	} {
		code, out, errOut := errand(t, url, test.args...)
		if code != test.code || !strings.Contains(errOut, test.want) || code == exitOK && !strings.Contains(out, "Examples:") {
			t.Errorf("%s: %d %q %q; want %d %q", name, code, out, errOut, test.code, test.want)
		}
	}
}
