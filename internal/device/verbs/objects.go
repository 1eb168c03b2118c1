package verbs

import (
	"slices"
	"time"
)

// ObjectKind is a kind of objects that the kernel's resource tracking lists.
type ObjectKind uint8

// The kinds of objects, the holders' parents first.
const (
	ObjectContext ObjectKind = iota
	ObjectPD
	ObjectCQ
	ObjectSRQ
	ObjectQP
	ObjectKinds // their number
)

// String returns the kind as in "cq", the kernel's name for it (rdma-resource(8)).
func (k ObjectKind) String() string {
	switch k {
	case ObjectContext:
		return "ctx"
	case ObjectPD:
		return "pd"
	case ObjectCQ:
		return "cq"
	case ObjectSRQ:
		return "srq"
	case ObjectQP:
		return "qp"
	}
	return "unknown"
}

// How often the objects of a device are listed.
const (
	ObjectsInterval = 10 * time.Second
	// QueuePairsInterval is for queue pairs: the kernel queries each of them, with some drivers a
	// command to the firmware each.
	QueuePairsInterval = time.Minute
)

// QPStates is the number of states of a queue pair: RESET, INIT, RTR, RTS, SQD, SQE and ERR, from
// 0, as in enum ib_qp_state of the kernel's rdma/ib_verbs.h.
const QPStates = 7

// ListState is what came of listing the objects of a kind.
type ListState uint8

// The states of a list.
const (
	ListNotAsked ListState = iota
	ListFailed             // nothing is known
	ListCounted            // there are too many to be listed
	ListWhole
)

// ObjectList is what came of listing the objects of a kind.
type ObjectList struct {
	State ListState
	Count uint64 // of the device, with ListCounted
}

// Objects is who holds the objects of a device.
type Objects struct {
	Mono    int64 // CLOCK_MONOTONIC ns, before the first list was asked for
	Lists   [ObjectKinds]ObjectList
	Holders []Holder // of what was listed, each once; at most MaxHolders
	Problem string   // why the first list that failed did; ""
}

// MaxHolders is the most Holders of a device. What others hold is added to the one that is not
// known.
const MaxHolders = 4096

// Holder is a thread that holds objects of a device, or the kernel's modules together. Neither
// Thread nor Kernel is set where it is not known who holds them.
type Holder struct {
	// Thread is the number of the thread that created the objects, or their protection domain or
	// context, in this process's pid namespace.
	Thread int
	Kernel bool
	Counts [ObjectKinds]uint32
	States [QPStates]uint32 // of the queue pairs whose state is known
}

// Clone returns a copy with Holders of its own.
func (o *Objects) Clone() *Objects {
	c := *o
	c.Holders = slices.Clone(o.Holders)
	return &c
}

// Tally adds up objects by holder.
type Tally struct {
	holders []Holder
	places  map[owner]int // in holders
}

// owner is what a Holder is known by.
type owner struct {
	thread int
	kernel bool
}

// Add adds one object. state is that of a queue pair, by the numbers of QPStates; any other
// number is no state.
func (t *Tally) Add(thread int, kernel bool, kind ObjectKind, state int) {
	h := t.holder(owner{thread, kernel})
	h.Counts[kind]++
	if kind == ObjectQP && state >= 0 && state < QPStates {
		h.States[state]++
	}
}

func (t *Tally) holder(who owner) *Holder {
	i, ok := t.places[who]
	switch {
	case ok:
		return &t.holders[i]
	case len(t.holders) >= MaxHolders-1 && who != owner{}: // one place is kept for those not known
		return t.holder(owner{})
	}
	if t.places == nil {
		t.places = map[owner]int{}
	}
	t.places[who] = len(t.holders)
	t.holders = append(t.holders, Holder{Thread: who.thread, Kernel: who.kernel})
	return &t.holders[len(t.holders)-1]
}

// Holders returns the holders of what was added, in the order in which they came.
func (t *Tally) Holders() []Holder { return t.holders }
