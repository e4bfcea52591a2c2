package main

const (
	scheduleFile = "shared/schedule/schedule.go"
	armFile      = "shared/timetable/arm.go"
	fireFile     = "shared/timetable/fire.go"
)

// scheduleMutants break the rules of schedules, and the order of steps of the timetable.
var scheduleMutants = []mutant{
	{"a timer ahead of its row is stale", schedules, scheduleFile,
		"case s.NextAt == 0 || s.NextAt > t.Due:",
		"case s.NextAt != t.Due:",
		timetables, "TestATimerThatOvertakesItsSender"},
	{"a timer is judged without its generation", schedules, scheduleFile,
		"case s.Generation != t.Generation:",
		"case s.Generation == \"\":",
		timetables, "TestATimerThatOvertakesTheChangeThatSentIt"},
	{"a foreign timer does not fence", schedules, fireFile,
		"return s.Fence(row) })",
		"return s, subagent.Mine })",
		timetables, "TestATimerThatOvertakesItsSender"},
	{"an arming writes over a row that moved on", schedules, scheduleFile,
		`	if s.Version != read.Version {
		return s, subagent.Stale
	}
	edited.Version`,
		"	edited.Version",
		timetables, "TestATimerThatOvertakesItsSender"},
	{"a firing moves a row that moved on", schedules, scheduleFile,
		"if s.Generation != t.Generation || s.NextAt != due {",
		"if s.Generation != t.Generation {",
		moments, "TestARowMovesFromItsOwnMomentOnly"},
	{"what is owed is dropped by a change", schedules, scheduleFile,
		"case s.NextAt != 0 && s.NextAt <= subagent.At(now):",
		"case s.NextAt != 0 && s.NextAt < 0:",
		timetables, "TestAChangeMakesOldTimersDieAndKeepsWhatIsOwed"},
	{"a late firing is followed by all that were missed", schedules, scheduleFile,
		"plan.Next(max(due, seen).Time(), s.Anchor.Time())",
		"plan.Next(max(due, 0*seen).Time(), s.Anchor.Time())",
		timetables, "TestAMachineThatWasOffFiresOnceAndGoesOn"},
	{"a firing writes before it sends", schedules, fireFile,
		`	if next != 0 {
		if err := t.send(`,
		`	if _, _, err := l.UpdateSchedule(ctx, row, func(s schedule.Schedule) (schedule.Schedule, subagent.Outcome) { return s.Fired(timer, due, next) }); err != nil {
		return err
	}
	if next != 0 {
		if err := t.send(`,
		timetables, "TestACrashAfterAnyStepLosesNoFiringAndDoublesNone"},
	{"a firing that was accepted before is not woken again", schedules, fireFile,
		"return stored.AcceptedAt, l.SendTurn(ctx, stored, l.Nonce())",
		"return stored.AcceptedAt, nil",
		timetables, "TestACrashAfterAnyStepLosesNoFiringAndDoublesNone"},
	{"an arming sends no timer", schedules, armFile,
		"		if next != 0 {\n			if err := t.send(",
		"		if next < 0 {\n			if err := t.send(",
		timetables, "TestAScheduleFiresOnceForEachMoment"},
	{"an early timer fires", schedules, scheduleFile,
		"return subagent.At(now) < t.Due }",
		"return false }",
		timetables, "TestAFarMomentIsReachedInHops"},
	{"a lost timer is not sent again", schedules, armFile,
		"case row.Lost(now):",
		"case row.Lost(now) && row.LastAt < 0:",
		timetables, "TestALostTimerIsSentAgainByWhoeverLooks"},
	{"clearing keeps the schedules", schedules, "shared/ledger/erase.go",
		"{schedulePrefix, e.remove}, ",
		"",
		timetables, "TestADeletedScheduleAndAClearedConversationFireNoMore"},
	{"a disabled agent is asked", schedules, fireFile,
		`	if refusal != nil {
		stored`,
		`	if refusal != nil && t.Frozen {
		stored`,
		timetables, "TestAnAgentThatTakesNoNewWorkMissesTheFiring"},
}
