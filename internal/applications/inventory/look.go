package inventory

import (
	"time"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/device/verbs"
)

// Look is what one look at a device found.
type Look struct {
	Device string
	At     time.Time
	// Lists are what is known of each kind. One that was not asked for keeps the list of the look
	// before: queue pairs are listed more rarely than the rest.
	Lists    [verbs.ObjectKinds]verbs.ObjectList
	Holdings []Holding
}

// Holding is what an owner holds. An owner may have several.
type Holding struct {
	Owner  Owner
	Counts [verbs.ObjectKinds]uint32
	States [verbs.QPStates]uint32 // of the queue pairs
}

// Owner is who holds an object. The zero value is an owner that cannot be seen.
type Owner struct {
	Kernel  bool             // a module of the kernel; Process is empty
	Process identity.Process // PID 0: unknown
}

// NewLook returns the look that a worker's Objects are. process returns the process of a thread.
func NewLook(device string, at time.Time, o *verbs.Objects, process func(thread int) (identity.Process, bool)) *Look {
	look := &Look{Device: device, At: at, Lists: o.Lists}
	for i := range o.Holders {
		h := &o.Holders[i]
		one := Holding{Owner: Owner{Kernel: h.Kernel}, Counts: h.Counts, States: h.States}
		if !h.Kernel && h.Thread > 0 {
			one.Owner.Process, _ = process(h.Thread)
		}
		look.Holdings = append(look.Holdings, one)
	}
	return look
}

// Unknown reports whether the owner cannot be seen.
func (o *Owner) Unknown() bool { return !o.Kernel && o.Process.PID == 0 }

// tally is how many objects of one kind some owner holds.
type tally struct {
	count  int64
	states [verbs.QPStates]int64
}

func (t *tally) add(o *tally) {
	t.count += o.count
	for i, n := range o.states {
		t.states[i] += n
	}
}

// list is the list of a kind by owner. The zero value is that of one that is not known.
type list struct {
	state     verbs.ListState
	at        time.Time
	processes map[identity.ID]*tally
	unknown   tally
	kernel    tally
}

// newList returns the list of a kind.
func newList(kind verbs.ObjectKind, look *Look) list {
	l := list{state: look.Lists[kind].State, at: look.At, processes: map[identity.ID]*tally{}}
	switch l.state {
	case verbs.ListCounted:
		l.unknown.count = int64(look.Lists[kind].Count)
	case verbs.ListWhole:
		for i := range look.Holdings {
			if h := &look.Holdings[i]; h.Counts[kind] > 0 {
				l.add(kind, h)
			}
		}
	}
	return l
}

func (l *list) add(kind verbs.ObjectKind, h *Holding) {
	held := tally{count: int64(h.Counts[kind])}
	if kind == verbs.ObjectQP {
		for state, n := range h.States {
			held.states[state] = int64(n)
		}
	}
	l.of(&h.Owner).add(&held)
}

func (l *list) of(o *Owner) *tally {
	switch {
	case o.Kernel:
		return &l.kernel
	case o.Unknown():
		return &l.unknown
	}
	id := o.Process.ID()
	if l.processes[id] == nil {
		l.processes[id] = &tally{}
	}
	return l.processes[id]
}

// known returns what is known at a moment: nothing of a list that is three intervals old, since
// the device has no worker then, or one that hangs.
func (l *list) known(kind verbs.ObjectKind, at time.Time) verbs.ListState {
	interval := verbs.ObjectsInterval
	if kind == verbs.ObjectQP {
		interval = verbs.QueuePairsInterval
	}
	if at.Sub(l.at) > 3*interval {
		return verbs.ListFailed
	}
	return l.state
}
