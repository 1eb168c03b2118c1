package inventory

import (
	"time"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/device/verbs"
)

// Listing has the objects of a device at one time, by owner.
type Listing struct {
	Device string
	At     time.Time
	// Lists has the state of the list of each kind. A kind that was not requested keeps its previous list: queue pairs are listed less often than
	// other objects.
	Lists    [verbs.ObjectKinds]verbs.ObjectList
	Holdings []Holding
}

// Holding has the numbers of objects that an owner holds. An owner may have several Holdings.
type Holding struct {
	Owner  Owner
	Counts [verbs.ObjectKinds]uint32
	States [verbs.QPStates]uint32 // number of queue pairs by state
}

// Owner is the owner of an object. The zero value is an owner that is not visible.
type Owner struct {
	Kernel  bool             // a kernel module; Process is empty
	Process identity.Process // PID 0: unknown
}

// NewListing converts the Objects of a worker. process returns the process of a thread.
func NewListing(device string, at time.Time, o *verbs.Objects, process func(thread int) (identity.Process, bool)) *Listing {
	look := &Listing{Device: device, At: at, Lists: o.Lists}
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

// Unknown reports whether the owner is not visible.
func (o *Owner) Unknown() bool { return !o.Kernel && o.Process.PID == 0 }

// tally is the number of objects of one kind, also by state for queue pairs.
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

// list has the objects of one kind by owner. The zero value is an unknown list.
type list struct {
	state     verbs.ListState
	at        time.Time
	processes map[identity.ID]*tally
	unknown   tally
	kernel    tally
}

// newList returns the list of one kind of a Listing.
func newList(kind verbs.ObjectKind, look *Listing) list {
	l := list{state: look.Lists[kind].State, at: look.At, processes: map[identity.ID]*tally{}}
	switch l.state {
	case verbs.ListCounted:
		l.unknown.count = int64(look.Lists[kind].Count)
	case verbs.ListComplete:
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
	l.tallyFor(&h.Owner).add(&held)
}

func (l *list) tallyFor(o *Owner) *tally {
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

// stateAt returns the state of the list at a time. A list older than three intervals counts as failed, because the device then has no
// worker or its worker hangs.
func (l *list) stateAt(kind verbs.ObjectKind, at time.Time) verbs.ListState {
	interval := verbs.ObjectsInterval
	if kind == verbs.ObjectQP {
		interval = verbs.QueuePairsInterval
	}
	if at.Sub(l.at) > 3*interval {
		return verbs.ListFailed
	}
	return l.state
}
