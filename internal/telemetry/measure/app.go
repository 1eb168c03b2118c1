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
	Unit      string // "": none, or not in by
	Processes Held
	Contexts  Held
	PDs       Held
	CQs       Held
	SRQs      Held
	QPs       Held
	States    [verbs.QPStates]Held // QPs by state
	At        time.Time
}

// Held is how many objects are held.
type Held struct {
	Count int64
	Known bool
}

// Key implements Point.
func (a *App) Key() Key {
	return Key{Measurement: apps.Name, Device: a.Device, Of: a.App + "\n" + a.Unit}
}

// Time implements Point.
func (a *App) Time() time.Time { return a.At }

// Merge implements Point: the later one replaces this.
func (a *App) Merge(later Point) { *a = *later.(*App) }

// Clone implements Point.
func (a *App) Clone() Point { return clone(a) }

// Events implements Point.
func (*App) Events() uint64 { return 0 }

// Lines implements Point. A point of which nothing is known has no line.
func (a *App) Lines(add func(Line)) {
	if l := apps.line(a); len(l.Fields) > 0 {
		add(l)
	}
}

var apps = table[App]{
	Metric: Metric{
		Name:    "rdma_app",
		Emitted: everyInterval + " while it has a process, and once at its end",
		Description: "Which application holds which objects of a device, as the kernel's resource tracking lists them. " +
			"Only with applications.objects. The queue pairs are those of the last minute, the rest those of the last ten seconds; " +
			"a list that the kernel refused leaves its fields out.",
	},
	tags: []tag[App]{
		newTag("device", "name of the RDMA device", func(v *App) string { return v.Device }),
		newTag("app", "name of the process; "+ownText+"; other (what is above max_series), unknown (objects whose owner cannot be seen, "+
			"and those of which only the number is known) or kernel (objects of kernel modules)", func(v *App) string { return v.App }),
		maybeTag("unit", unitText+"; with unit in applications.by", func(v *App) string { return v.Unit }),
	},
	fields: slices.Concat([]field[App]{
		held("processes", "processes that hold an object; not with unknown and kernel", func(v *App) Held { return v.Processes }),
		held("contexts", "open contexts", func(v *App) Held { return v.Contexts }),
		held("pds", "protection domains", func(v *App) Held { return v.PDs }),
		held("cqs", "completion queues", func(v *App) Held { return v.CQs }),
		held("srqs", "shared receive queues", func(v *App) Held { return v.SRQs }),
		held("qps", "queue pairs", func(v *App) Held { return v.QPs }),
	}, stateRows()),
}

func stateRows() []field[App] {
	var rows []field[App]
	for state, name := range [verbs.QPStates]string{"reset", "init", "rtr", "rts", "sqd", "sqe", "error"} {
		rows = append(rows, held("qps_"+name, "queue pairs in state "+name, func(v *App) Held { return v.States[state] }))
	}
	return rows
}

func held(name, description string, value func(*App) Held) field[App] {
	return maybe(name, "", description, func(v *App) (int64, bool) { return value(v).Count, value(v).Known })
}
