package alerts

import "time"

// Severity is how urgent an alert is.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // wakes the person on duty
	Warning  Severity = "warning"  // can wait for the day
)

// Alert is a row of the table.
type Alert struct {
	ID       string // as in port-down
	Title    string
	Severity Severity

	// Measurement is the one whose series are judged, each by itself; "" if Elsewhere is set.
	Measurement string
	// Except is a tag whose series are not judged. Its zero value excludes none.
	Except Tag
	// When is what has to be so. It is nil if Elsewhere is set.
	When Condition
	// Elsewhere says what a host lacks to judge this by itself, as other hosts. The engines have queries of their own for it.
	Elsewhere string
	// Hold is how long the condition has to hold.
	Hold time.Duration
	// HoldsAStaleValue: where reports are rare, the hold is as long as an engine takes an old value for the present one.
	HoldsAStaleValue bool
	// Slow: the engines evaluate it every five minutes instead of every minute.
	Slow bool
	// Age is the field that says how long the condition has lasted, if there is one; without it, it began when it was first seen.
	Age string

	// Text is what a problem of this kind says in status, with {name} for the value of a field or of a tag, and {total} for the sum of
	// the counters of a Grew. Of names what several problems of one device differ in, as an application; "": nothing.
	Text, Of string

	// Panel shows what the alert is about.
	Panel Panel
	// Summary is the text of the alert, a template of Grafana with .Labels. In it and in Fires {of_site}, {of_the_site}, {at_place}, {one_place} and
	// {silent_for} stand for what depends on the options of the generated files.
	Summary string
	OfSite  bool
	// Fires says when it fires, Quiet when it intentionally does not, Clears what ends it, Blind what it cannot see.
	Fires, Quiet, Clears, Blind string
	// FirstSteps are what to do. None of them can harm a host or a fabric without saying so.
	FirstSteps []string
}

// Tag is a tag of a series and its value.
type Tag struct{ Name, Value string }

// Panel is a panel of a dashboard.
type Panel struct {
	Dashboard string // its UID
	ID        int
}

// The UIDs of the dashboards.
const (
	Overview     = "rdma-events-fleet"
	HostBoard    = "rdma-events-host"
	DeviceBoard  = "rdma-events-device"
	Applications = "rdma-events-applications"
	FabricBoard  = "rdma-events-fabric"
)
