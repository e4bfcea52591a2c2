package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/errand-dev/errand/shared/config"
	"github.com/errand-dev/errand/shared/reconcile"
)

// measures writes what ticks saw as lines of the log from which CloudWatch makes metrics (the
// embedded metric format): that costs no call, and nothing while all is well.
type measures struct {
	log      *slog.Logger
	function string
	now      func() time.Time
}

const (
	// lateFrom is from where a late tick is worth a line. Scheduler alone is up to a minute late.
	lateFrom = 2 * time.Minute
	// executionsFrom is the same for a run's executions: fifteen minutes each, this is a day.
	executionsFrom = 100
)

func (m measures) seen(ctx context.Context, o reconcile.Observation) {
	if o.Late >= lateFrom {
		m.put(ctx, "tick was late", config.TickLateness, "Seconds", o.Late.Seconds())
	}
	if o.Executions >= executionsFrom {
		m.put(ctx, "run was executed often", config.RunExecutions, "Count", float64(o.Executions), slog.String("run_id", o.Run))
	}
}

type emf struct {
	Timestamp         int64
	CloudWatchMetrics []emfDirective
}

type emfDirective struct {
	Namespace  string
	Dimensions [][]string
	Metrics    []emfMetric
}

type emfMetric struct{ Name, Unit string }

func (m measures) put(ctx context.Context, message, metric, unit string, value float64, more ...slog.Attr) {
	directive := emfDirective{config.MetricNamespace, [][]string{{config.MetricDimension}}, []emfMetric{{metric, unit}}}
	attributes := append(more, slog.Float64(metric, value), slog.String(config.MetricDimension, m.function),
		slog.Any("_aws", emf{m.now().UnixMilli(), []emfDirective{directive}}))
	m.log.LogAttrs(ctx, slog.LevelWarn, message, attributes...)
}
