package verbs

import (
	"slices"
	"time"
)

// ObjectKind is a kind of object that the kernel's resource tracking lists.
type ObjectKind uint8

// The kinds of objects. Contexts and protection domains come first: the other objects belong to them.
const (
	ObjectContext ObjectKind = iota
	ObjectPD
	ObjectCQ
	ObjectSRQ
	ObjectQP
	ObjectKinds // the number of kinds
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
	// QueuePairsInterval applies to queue pairs. It is longer because the kernel queries each queue
	// pair, which with some drivers is a firmware command.
	QueuePairsInterval = time.Minute
)

// QPStates is the number of states of a queue pair. The states are RESET, INIT, RTR, RTS, SQD, SQE
// and ERR, numbered from 0 as in enum ib_qp_state of the kernel's rdma/ib_verbs.h.
const QPStates = 7

// ListState is the state of the list of one kind of object.
type ListState uint8

// The states of a list.
const (
	ListNotAsked ListState = iota
	ListFailed             // nothing is known
	ListCounted            // too many objects to list; only their number is known
	ListComplete
)

// ObjectList describes the list of one kind of object.
type ObjectList struct {
	State ListState
	Count uint64 // objects of the device; only with ListCounted
}

// Objects reports who holds the objects of a device.
type Objects struct {
	Mono    int64 // CLOCK_MONOTONIC ns, before the first list was requested
	Lists   [ObjectKinds]ObjectList
	Holders []Holder // of the listed objects, each holder once; at most MaxHolders
	Problem string   // why the first failed list failed; "" if none failed
}

// MaxHolders is the largest number of Holders of a device. The objects of further holders are added
// to the unknown holder.
const MaxHolders = 4096

// Holder is a thread that holds objects of a device, or all kernel modules together. If the holder
// is unknown, neither Thread nor Kernel is set.
type Holder struct {
	// Thread is the ID of the thread that created the objects, or their protection domain or
	// context, in this process's PID namespace.
	Thread int
	Kernel bool
	Counts [ObjectKinds]uint32
	States [QPStates]uint32 // number of queue pairs in each state, where the state is known
}

// Clone returns a copy that does not share Holders.
func (o *Objects) Clone() *Objects {
	c := *o
	c.Holders = slices.Clone(o.Holders)
	return &c
}

// ObjectTally counts objects by holder.
type ObjectTally struct {
	holders []Holder
	indexes map[owner]int // into holders
}

// owner identifies a Holder.
type owner struct {
	thread int
	kernel bool
}

// Add counts one object. state is the state of a queue pair, numbered as described at QPStates;
// other values are ignored.
func (t *ObjectTally) Add(thread int, kernel bool, kind ObjectKind, state int) {
	h := t.findOrAdd(owner{thread, kernel})
	h.Counts[kind]++
	if kind == ObjectQP && state >= 0 && state < QPStates {
		h.States[state]++
	}
}

// findOrAdd returns the Holder of an owner. Once the tally is full, that is the unknown holder.
func (t *ObjectTally) findOrAdd(o owner) *Holder {
	i, ok := t.indexes[o]
	switch {
	case ok:
		return &t.holders[i]
	case len(t.holders) >= MaxHolders-1 && o != owner{}: // the last element is reserved for the unknown holder
		return t.findOrAdd(owner{})
	}
	if t.indexes == nil {
		t.indexes = map[owner]int{}
	}
	t.indexes[o] = len(t.holders)
	t.holders = append(t.holders, Holder{Thread: o.thread, Kernel: o.kernel})
	return &t.holders[len(t.holders)-1]
}

// Holders returns the holders in the order in which they were added.
func (t *ObjectTally) Holders() []Holder { return t.holders }
