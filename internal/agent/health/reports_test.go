package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/telemetry/measure"
)

// problemLog collects the points of reports at seconds after a start.
type problemLog struct {
	reports *Reports
	began   time.Time
}

func newProblemLog() *problemLog {
	return &problemLog{NewReports(), time.Unix(1_800_000_000, 0)}
}

// at reports the problems at a second, and returns the points that it emits.
func (l *problemLog) at(second int, problems ...Problem) (emitted []measure.Problem) {
	for _, p := range l.reports.Points(problems, l.began.Add(time.Duration(second)*time.Second)) {
		emitted = append(emitted, *p.(*measure.Problem))
	}
	return emitted
}

func (l *problemLog) portDown(port int) Problem {
	return Problem{
		ID: "port-down", Severity: alerts.Critical, Device: "mlx5_0", Port: port, Since: l.began.Add(-time.Hour), Text: "the port is down",
	}
}

func TestProblemIsReportedAtItsChangesAndOnceAMinute(t *testing.T) {
	l := newProblemLog()
	require.Empty(t, l.at(0), "a healthy host reports nothing")
	began := l.at(10, l.portDown(1))
	require.Len(t, began, 1)
	require.Equal(t, measure.Problem{
		Alert: "port-down", Severity: "critical", Device: "mlx5_0", Port: 1, Active: true, Since: l.began.Add(-time.Hour),
		Text: "the port is down", FirstStep: l.reports.firstSteps["port-down"], At: l.began.Add(10 * time.Second),
	}, began[0])
	require.NotEmpty(t, began[0].FirstStep)
	for second := 20; second < 70; second += 10 {
		require.Empty(t, l.at(second, l.portDown(1)))
	}
	require.Len(t, l.at(70, l.portDown(1)), 1)
	both := l.at(80, l.portDown(1), l.portDown(2))
	require.Len(t, both, 1, "another problem does not repeat the first one")
	require.Equal(t, 2, both[0].Port)
	ended := l.at(90, l.portDown(2))
	require.Len(t, ended, 1)
	require.False(t, ended[0].Active)
	require.Equal(t, l.began.Add(-time.Hour), ended[0].Since)
	require.Equal(t, began[0].Key(), ended[0].Key(), "the end is in the series of the problem")
	require.Empty(t, l.at(100, l.portDown(2)))
	require.Len(t, l.at(110), 1)
	require.Empty(t, l.at(200))
}

func TestChangeOfSeverityEndsOneSeriesAndBeginsAnother(t *testing.T) {
	l := newProblemLog()
	critical, warning := l.portDown(1), l.portDown(1)
	warning.Severity = alerts.Warning
	l.at(0, critical)
	changed := l.at(10, warning)
	require.Len(t, changed, 2)
	active := map[string]bool{}
	for _, p := range changed {
		active[p.Severity] = p.Active
	}
	require.Equal(t, map[string]bool{"critical": false, "warning": true}, active)
}

// The probes of two completion vectors have the same tags.
func TestOldestOfProblemsWithEqualTagsIsReported(t *testing.T) {
	l := newProblemLog()
	newer, older := l.portDown(1), l.portDown(1)
	older.Since, older.Text = l.began.Add(-2*time.Hour), "vector 3"
	reported := l.at(0, newer, older)
	require.Len(t, reported, 1)
	require.Equal(t, "vector 3", reported[0].Text)
	require.Empty(t, l.at(10, newer), "the series goes on while one of them lasts")
	require.Len(t, l.at(20), 1)
}

func TestEveryAlertHasAFirstStep(t *testing.T) {
	r := NewReports()
	for _, a := range alerts.Table() {
		require.NotEmpty(t, r.firstSteps[a.ID], a.ID)
		require.LessOrEqual(t, len(r.firstSteps[a.ID]), 256, "%s: a field has at most 256 bytes", a.ID)
	}
}
