package measure

import (
	"strconv"
	"time"
)

// Problem is a point of rdma_problem: an alert that the plugin reports about its own host.
type Problem struct {
	Alert     string // ID of the alert, for example port-down
	Severity  string
	Device    string    // "": the host or the plugin
	Port      int       // 0: the device
	Of        string    // application, and the object in whose call one of its threads hangs; "": none
	Active    bool      // false: the problem has just ended
	Since     time.Time // when the problem began
	Text      string
	FirstStep string
	At        time.Time
}

// Key implements Point.
func (p *Problem) Key() Key {
	return Key{Measurement: problemTable.Name, Device: p.Device, Subject: p.Alert + "\n" + p.Severity + "\n" + p.Of, Port: p.Port}
}

// Time implements Point.
func (p *Problem) Time() time.Time { return p.At }

// Merge implements Point. The later point replaces this one.
func (p *Problem) Merge(later Point) { *p = *later.(*Problem) }

// Clone implements Point.
func (p *Problem) Clone() Point { return clone(p) }

// Events implements Point.
func (*Problem) Events() uint64 { return 0 }

// Lines implements Point.
func (p *Problem) Lines(add func(Line)) { add(problemTable.line(p)) }

var problemTable = table[Problem]{
	Metric: Metric{
		Name:    "rdma_problem",
		Emitted: "when a problem begins or ends, and once a minute while it lasts",
		Description: "Problems of the host, by the judgement of rdma-events health: alerts whose condition holds and has " +
			"held for long enough. A host without problems has no series. Alerts that compare several hosts or need the past of hours, as wake-slow " +
			"does, are not among them. Several problems with the same tags, such as the probes of two completion vectors, are one series, " +
			"which describes the oldest of them.",
	},
	tags: []tag[Problem]{
		requiredTag("alert", "ID of the alert, as in docs/reference/alerts.md", func(v *Problem) string { return v.Alert }),
		requiredTag("severity", "critical or warning", func(v *Problem) string { return v.Severity }),
		optionalTag("device", "name of the RDMA device; not on problems of the host or of the plugin", func(v *Problem) string { return v.Device }),
		optionalTag("port", "number of the port, from 1; only on problems of a port", func(v *Problem) string {
			if v.Port == 0 {
				return ""
			}
			return strconv.Itoa(v.Port)
		}),
		optionalTag("of", "application, and the object in whose call one of its threads hangs; only on problems of applications",
			func(v *Problem) string { return v.Of }),
	},
	fields: []field[Problem]{
		boolInt("active", "1 while the problem lasts; 0 once after it has ended", func(v *Problem) bool { return v.Active }),
		requiredInt("since_ns", "ns", "time at which the problem began, since 1970-01-01; a restart of the plugin within ten minutes does not change it",
			func(v *Problem) int64 { return v.Since.UnixNano() }),
		optionalText("text", "what is wrong, in one line", func(v *Problem) string { return v.Text }),
		optionalText("do", "first step to take; docs/reference/alerts.md has all steps", func(v *Problem) string { return v.FirstStep }),
	},
}
