package measure

import (
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

// AppHang is a point of rdma_app_hang: threads of an application that hang in the destruction of objects of one kind.
// All but Threads is of the one that has waited longest.
type AppHang struct {
	Device  string
	App     string
	Object  verbs.Scope
	Threads int   // 0: Ended
	Age     int64 // ns
	Missing uint32
	PID     int
	TID     int
	Number  uint32 // 0: not known
	Unit    string // "": none
	Proof   trace.Proof
	At      time.Time
}

// Ended reports whether none of the application's threads hangs any more, as far as the plugin knows. The other fields are then of the last
// one that did.
func (h *AppHang) Ended() bool { return h.Threads == 0 }

// Key implements Point.
func (h *AppHang) Key() Key {
	return Key{Measurement: appHangs.Name, Device: h.Device, Of: h.App + "\n" + h.Object.String()}
}

// Time implements Point.
func (h *AppHang) Time() time.Time { return h.At }

// Merge implements Point: the later one replaces this.
func (h *AppHang) Merge(later Point) { *h = *later.(*AppHang) }

// Clone implements Point.
func (h *AppHang) Clone() Point { return clone(h) }

// Events implements Point.
func (*AppHang) Events() uint64 { return 0 }

// Lines implements Point.
func (h *AppHang) Lines(add func(Line)) { add(appHangs.line(h)) }

var appHangs = table[AppHang]{
	Metric: Metric{
		Name:    "rdma_app_hang",
		Emitted: everyInterval + " while it lasts, and once at its end",
		Description: "Threads that wait in ibv_destroy_cq, ibv_destroy_qp, ibv_destroy_srq or ibv_destroy_wq for acknowledgements " +
			"of events. Only with applications.events, and after applications.hang_after. Several of one application count " +
			"together; all fields but threads are of the one that has waited longest.",
	},
	tags: []tag[AppHang]{
		newTag("device", "name of the RDMA device", func(v *AppHang) string { return v.Device }),
		newTag("app", tracedText, func(v *AppHang) string { return v.App }),
		newTag("object", "what is being destroyed: cq, qp, srq or wq", func(v *AppHang) string { return v.Object.String() }),
	},
	fields: []field[AppHang]{
		integer("threads", "", "threads that hang; 0: it is over", func(v *AppHang) int64 { return int64(v.Threads) }),
		integer("age_ns", "ns", "how long it has lasted", func(v *AppHang) int64 { return v.Age }),
		integer("missing", "", "acknowledgements that are missing", func(v *AppHang) int64 { return int64(v.Missing) }),
		pidRow(func(v *AppHang) int { return v.PID }),
		maybe("tid", "", "number of the thread", func(v *AppHang) (int64, bool) { return int64(v.TID), v.TID > 0 }),
		numberRow(func(v *AppHang) uint32 { return v.Number }),
		unitRow(func(v *AppHang) string { return v.Unit }),
		text("proof", "asleep: the thread has not run since; waiting: it has, and waits again, since some acknowledgements came",
			func(v *AppHang) trace.Proof { return v.Proof }),
	},
}
