package recorder

import (
	"encoding/json"
	"time"
)

// Entry is what a caller adds.
type Entry struct {
	// Kind selects records when they are read. The recorder itself writes the kinds start, alive, end, lost and clock.
	Kind string
	// Device and Port are what the record is about; "" and 0: the whole host, the whole device.
	Device string
	Port   int
	// Sync has the record written through to the disk at once, and not within a second.
	Sync bool
	// Data is encoded by encoding/json, as an object, in the goroutine that writes. So it must not be changed after
	// Add. A json.RawMessage is written as it is. nil: the record has no data.
	Data any
}

// Record is what is read.
type Record struct {
	// Sequence orders all records of a directory.
	Sequence uint64 `json:"sequence"`
	// Time is the wall clock when the record was added, in UTC. It may go back.
	Time time.Time `json:"time"`
	// BootNS is CLOCK_BOOTTIME when the record was added, in ns. It rises within one run. A run that had to wait for the
	// directory begins before its predecessor's end.
	BootNS int64 `json:"boot_ns"`
	// BootID is the kernel's name of the boot (random(4)).
	BootID string `json:"boot_id"`
	// Host is the name of the host; "" in records of versions that did not write it.
	Host   string          `json:"host,omitempty"`
	Kind   string          `json:"kind"`
	Device string          `json:"device,omitempty"`
	Port   int             `json:"port,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// The kinds of the recorder's own records, which concern the whole host.
const (
	KindStart = "start" // the first record of a run; Data is a Start
	KindAlive = "alive" // nothing was written for a time before this one; Data is an Alive
	KindEnd   = "end"   // the last record of a run that ended in order; no Data
	KindLost  = "lost"  // records were lost before this one; Data is a Lost
	KindClock = "clock" // the wall clock was set; Data is a Clock
)

// Start is how the run before ended.
type Start struct {
	// Clean is whether that run wrote its end.
	Clean bool `json:"clean"`
	// LastSequence, LastTime and LastBootID are of its last record that is left; 0, zero and "": there is none.
	LastSequence uint64    `json:"last_sequence,omitempty"`
	LastTime     time.Time `json:"last_time,omitzero"`
	LastBootID   string    `json:"last_boot_id,omitempty"`
	// CutBytes is how much was cut from the newest segment, since it was no sound frame.
	CutBytes int64 `json:"cut_bytes,omitempty"`
	// AliveNS is the longest time without a record in this run, while it writes. 0: it may be any.
	AliveNS int64 `json:"alive_ns,omitempty"`
}

// Alive tells that the recorder runs, while there is nothing to record.
type Alive struct {
	AliveNS int64 `json:"alive_ns"` // as in Start
}

// Lost is how many records were lost.
type Lost struct {
	Count uint64 `json:"count"`
	// Since is when the first of them was lost.
	Since time.Time `json:"since"`
	// Error is why: how the disk failed, or why a record could not be encoded; "": records came faster than the disk
	// takes them.
	Error string `json:"error,omitempty"`
}

// Clock is a step of the wall clock against the boot clock, within one boot.
type Clock struct {
	// StepNS is negative if the clock was set back.
	StepNS int64 `json:"step_ns"`
}

// leastStep is the least step that is recorded. Both clocks are slewed alike, so their distance changes by steps only;
// a smaller step could as well be a process that was preempted between the readings of the clocks.
const leastStep = int64(100 * time.Millisecond)

// stamped is an entry on its way to the disk.
type stamped struct {
	Entry
	wall, boot int64
	own        bool // a record of the recorder itself, which Counts leave out
}

// records returns how many records are lost with e: those of a Lost, none with another own one.
func (e *stamped) records() uint64 {
	if !e.own {
		return 1
	}
	l, _ := e.Data.(Lost)
	return l.Count
}

// own returns a record of the recorder itself, at the time of another one.
func own(kind string, data any, at stamped) stamped {
	return stamped{Entry: Entry{Kind: kind, Data: data, Sync: kind == KindStart}, wall: at.wall, boot: at.boot, own: true}
}

// newLost returns the data of a record of lost ones; since is of the wall clock in ns, and why may be nil.
func newLost(count uint64, since int64, why error) Lost {
	l := Lost{Count: count, Since: time.Unix(0, since).UTC()}
	if why != nil {
		l.Error = why.Error()
	}
	return l
}
