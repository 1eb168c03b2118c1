package measure

import (
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

// AppHang is a point of rdma_app_hang. It describes the threads of an application that hang while they destroy objects of
// one kind. All fields except Threads describe the thread that has waited longest.
type AppHang struct {
	Device  string
	App     string
	Object  verbs.Scope
	Threads int   // 0: the hang has ended
	Age     int64 // ns
	Missing uint32
	PID     int
	TID     int
	Number  uint32 // 0: not known
	Unit    string // "": none
	Proof   trace.Proof
	At      time.Time
}

// Ended reports whether, as far as the plugin knows, no thread of the application hangs any more. The other fields then
// describe the last thread that hung.
func (h *AppHang) Ended() bool { return h.Threads == 0 }

// Key implements Point.
func (h *AppHang) Key() Key {
	return Key{Measurement: appHangTable.Name, Device: h.Device, Subject: h.App + "\n" + h.Object.String()}
}

// Time implements Point.
func (h *AppHang) Time() time.Time { return h.At }

// Merge implements Point. The later point replaces this one.
func (h *AppHang) Merge(later Point) { *h = *later.(*AppHang) }

// Clone implements Point.
func (h *AppHang) Clone() Point { return clone(h) }

// Events implements Point.
func (*AppHang) Events() uint64 { return 0 }

// Lines implements Point.
func (h *AppHang) Lines(add func(Line)) { add(appHangTable.line(h)) }

var appHangTable = table[AppHang]{
	Metric: Metric{
		Name:    "rdma_app_hang",
		Emitted: everyInterval + " during the hang, and once after it has ended",
		Description: "Threads of applications that wait in ibv_destroy_cq, ibv_destroy_qp, ibv_destroy_srq or ibv_destroy_wq for the " +
			"acknowledgement of events. Only with applications.events, and once a thread has waited for applications.hang_after. " +
			"The point counts all hanging threads of an application; all other fields describe the thread that has waited longest.",
	},
	tags: []tag[AppHang]{
		requiredTag("device", "name of the RDMA device", func(v *AppHang) string { return v.Device }),
		requiredTag("app", tracedText, func(v *AppHang) string { return v.App }),
		requiredTag("object", "kind of object that the threads destroy: cq, qp, srq or wq", func(v *AppHang) string { return v.Object.String() }),
	},
	fields: []field[AppHang]{
		requiredInt("threads", "", "threads that hang; 0: the hang has ended", func(v *AppHang) int64 { return int64(v.Threads) }),
		requiredInt("age_ns", "ns", "time that the thread has waited", func(v *AppHang) int64 { return v.Age }),
		requiredInt("missing", "", "acknowledgements that are still missing", func(v *AppHang) int64 { return int64(v.Missing) }),
		pidField(func(v *AppHang) int { return v.PID }),
		optionalInt("tid", "", "thread ID", func(v *AppHang) (int64, bool) { return int64(v.TID), v.TID > 0 }),
		numberField(func(v *AppHang) uint32 { return v.Number }),
		unitField(func(v *AppHang) string { return v.Unit }),
		optionalText("proof", "asleep: the thread has not run since it began to wait; waiting: it ran because some acknowledgements came, and waits again",
			func(v *AppHang) trace.Proof { return v.Proof }),
	},
}
