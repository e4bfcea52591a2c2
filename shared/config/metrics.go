package config

// The metrics that reconcile writes into its log and the template's alarms look at.
const (
	MetricNamespace = "Errand"
	// MetricDimension is the one dimension of each, the function's name.
	MetricDimension = "FunctionName"
	// TickLateness is how many seconds after its time a tick came.
	TickLateness = "TickLateness"
	// RunExecutions is how many executions an outstanding run has used up.
	RunExecutions = "RunExecutions"
)
