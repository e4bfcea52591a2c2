package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/reconcile"
)

// What a line must have is in CloudWatch's specification of the embedded metric format.
func TestWhatIsWorthAnAlarmIsAMetricInTheLog(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1796040000000)
	for name, test := range map[string]struct {
		seen reconcile.Observation
		want string
	}{
		"all is well":  {reconcile.Observation{Late: time.Minute, Executions: 99, Run: "r"}, ""},
		"a late tick":  {reconcile.Observation{Late: 10 * time.Minute}, `{"msg":"tick was late","TickLateness":600,"FunctionName":"f","_aws":{"Timestamp":1796040000000,"CloudWatchMetrics":[{"Namespace":"Errand","Dimensions":[["FunctionName"]],"Metrics":[{"Name":"TickLateness","Unit":"Seconds"}]}]}}`},
		"a run's loop": {reconcile.Observation{Executions: 100, Run: "r"}, `{"msg":"run was executed often","run_id":"r","RunExecutions":100,"FunctionName":"f","_aws":{"Timestamp":1796040000000,"CloudWatchMetrics":[{"Namespace":"Errand","Dimensions":[["FunctionName"]],"Metrics":[{"Name":"RunExecutions","Unit":"Count"}]}]}}`},
	} {
		var out bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
				return slog.Attr{}
			}
			return a
		}}))
		measures{log, "f", func() time.Time { return at }}.seen(t.Context(), test.seen)
		if diff := cmp.Diff(decoded(t, []byte(test.want)), decoded(t, out.Bytes())); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func decoded(t *testing.T, line []byte) (value any) {
	t.Helper()
	if len(line) == 0 {
		return nil
	}
	if err := json.Unmarshal(line, &value); err != nil {
		t.Fatal(err)
	}
	return value
}
