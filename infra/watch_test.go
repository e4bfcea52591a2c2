package main

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEveryAlarmIsInTheRunbook keeps the table of docs/operations.md and the alarms equal.
func TestEveryAlarmIsInTheRunbook(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var described, deployed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|").FindAllSubmatch(page, -1) {
		described = append(described, string(row[1]))
	}
	for id, alarm := range prod(t).of("AWS::CloudWatch::Alarm") {
		deployed = append(deployed, id)
		if alarm.Properties["TreatMissingData"] != "notBreaching" {
			t.Errorf("%s: silence is %v", id, alarm.Properties["TreatMissingData"])
		}
		if actions := list(alarm.Properties["AlarmActions"]); !slices.Equal(actions, []string{"Alarms"}) {
			t.Errorf("%s tells %v", id, actions)
		}
	}
	slices.Sort(described)
	slices.Sort(deployed)
	if diff := cmp.Diff(deployed, described); diff != "" {
		t.Errorf("(-deployed +described)\n%s", diff)
	}
}
