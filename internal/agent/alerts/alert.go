package alerts

import "time"

// Severity is the urgency of an alert.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // needs attention at once
	Warning  Severity = "warning"  // can wait until working hours
)

// Alert is a row of the table.
type Alert struct {
	ID       string // for example port-down
	Title    string
	Severity Severity

	// Measurement is the measurement whose series are judged, each separately. It is "" if Elsewhere is set.
	Measurement string
	// Except is a tag that excludes a series. Its zero value excludes none.
	Except Tag
	// When is the condition. It is nil if Elsewhere is set.
	When Condition
	// Elsewhere names the data that a single host lacks to evaluate the alert, such as "other hosts". The generated rules then
	// contain queries of their own.
	Elsewhere string
	// Hold is the time for which the condition must hold before the alert fires.
	Hold time.Duration
	// HoldsAStaleValue is set if rules with rare reports must hold for as long as the database returns an old value as
	// the current one.
	HoldsAStaleValue bool
	// Slow is set if the rules are evaluated every five minutes instead of every minute.
	Slow bool
	// Age is the field that says for how long the condition has held when it is first evaluated as true. If it is "", the condition
	// holds since that evaluation.
	Age string
	// Successive is set if the series describes one thing after another, such as the thread that has hung the longest. When that thread
	// ends and the series goes on with the next one, the problem's beginning becomes that of the next one.
	Successive bool

	// Text is the text of the problem in `rdma-events status`. {name} stands for the value of a field or tag, and
	// {total} for the sum of the counters of a Grew. Of names the subject by which several problems of one device
	// differ, such as an application.
	Text, Of string

	// Panel is the panel of a dashboard that shows the cause of the alert.
	Panel Panel
	// Summary is the text of the notification, a template of Grafana with .Labels. In Summary and Fires, {of_site},
	// {of_the_site}, {at_place}, {one_place} and {silent_for} stand for text that depends on the options of the
	// generated files.
	Summary string
	OfSite  bool
	// Fires is when the alert fires, Quiet when it intentionally does not fire, Clears what ends it, and Blind what it
	// cannot detect.
	Fires, Quiet, Clears, Blind string
	// FirstSteps tell the reader what to do. A step that can harm a host or a fabric says so.
	FirstSteps []string
}

// Tag is the name and the value of a tag.
type Tag struct{ Name, Value string }

// Panel is a panel of a dashboard.
type Panel struct {
	Dashboard string // its UID
	ID        int
}

// The UIDs of the dashboards.
const (
	OverviewDashboard     = "rdma-events-fleet"
	HostDashboard         = "rdma-events-host"
	DeviceDashboard       = "rdma-events-device"
	ApplicationsDashboard = "rdma-events-applications"
	FabricDashboard       = "rdma-events-fabric"
)
