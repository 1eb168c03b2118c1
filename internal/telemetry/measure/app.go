package measure

import (
	"slices"
	"time"

	"rdma_events/internal/device/verbs"
)

// App is a point of rdma_app.
type App struct {
	Device    string
	App       string
	Unit      string // "": none, or the option by does not include it
	Processes Held
	Contexts  Held
	PDs       Held
	CQs       Held
	SRQs      Held
	QPs       Held
	States    [verbs.QPStates]Held // QPs by state
	At        time.Time
}

// Held is the number of objects of one kind that an application holds.
type Held struct {
	Count int64
	Known bool
}

// Key implements Point.
func (a *App) Key() Key {
	return Key{Measurement: appTable.Name, Device: a.Device, Subject: a.App + "\n" + a.Unit}
}

// Time implements Point.
func (a *App) Time() time.Time { return a.At }

// Merge implements Point. The later point replaces this one.
func (a *App) Merge(later Point) { *a = *later.(*App) }

// Clone implements Point.
func (a *App) Clone() Point { return clone(a) }

// Events implements Point.
func (*App) Events() uint64 { return 0 }

// Lines implements Point. A point without a known value has no line.
func (a *App) Lines(add func(Line)) {
	if l := appTable.line(a); len(l.Fields) > 0 {
		add(l)
	}
}

var appTable = table[App]{
	Metric: Metric{
		Name:    "rdma_app",
		Emitted: everyInterval + " while the application has a process, and once after it has ended",
		Description: "RDMA objects of a device that each application holds, as the kernel's resource tracking lists them. " +
			"Only with applications.objects. The numbers of queue pairs are at most one minute old, all others at most ten seconds. " +
			"If the kernel refuses a list, its fields are left out.",
	},
	tags: []tag[App]{
		requiredTag("device", "name of the RDMA device", func(v *App) string { return v.Device }),
		requiredTag("app", "name of the process; "+ownText+"; other: applications above max_series; unknown: objects whose owner is "+
			"not visible or of which only the number is known; kernel: objects of kernel modules", func(v *App) string { return v.App }),
		optionalTag("unit", unitText+"; only if applications.by includes unit", func(v *App) string { return v.Unit }),
	},
	fields: slices.Concat([]field[App]{
		heldField("processes", "processes that hold an object; not for unknown and kernel", func(v *App) Held { return v.Processes }),
		heldField("contexts", "open contexts", func(v *App) Held { return v.Contexts }),
		heldField("pds", "protection domains", func(v *App) Held { return v.PDs }),
		heldField("cqs", "completion queues", func(v *App) Held { return v.CQs }),
		heldField("srqs", "shared receive queues", func(v *App) Held { return v.SRQs }),
		heldField("qps", "queue pairs", func(v *App) Held { return v.QPs }),
	}, qpStateFields()),
}

func qpStateFields() []field[App] {
	var rows []field[App]
	for state, name := range [verbs.QPStates]string{"reset", "init", "rtr", "rts", "sqd", "sqe", "error"} {
		rows = append(rows, heldField("qps_"+name, "queue pairs in state "+name, func(v *App) Held { return v.States[state] }))
	}
	return rows
}

func heldField(name, description string, value func(*App) Held) field[App] {
	return optionalInt(name, "", description, func(v *App) (int64, bool) { return value(v).Count, value(v).Known })
}
