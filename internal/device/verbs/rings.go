package verbs

import (
	"errors"
	"math"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
)

// NoErrno stands in for the errno of a call that failed without setting one, like NO_ERRNO in internal/device/native/native.h.
const NoErrno = 4096

// ErrNoErrno is the error of a call that failed without setting errno.
var ErrNoErrno = errors.New("it failed without an errno")

// RunFromRing converts a run of the ledger's ring.
func RunFromRing(r *ledger.Run) Run {
	return Run{
		Type: EventType(r.Type), Port: int(r.Port), Count: r.Count, First: r.First, Last: r.Last,
		HoldSum: r.HoldSum, HoldMax: r.HoldMax, AckSum: r.AckSum, AckMax: r.AckMax,
	}
}

// RunToRing converts a run for the ledger's ring. It is the inverse of RunFromRing.
func RunToRing(r *Run) ledger.Run {
	return ledger.Run{
		Type: int32(r.Type), Port: int32(r.Port), Count: r.Count, First: r.First, Last: r.Last,
		HoldSum: r.HoldSum, HoldMax: r.HoldMax, AckSum: r.AckSum, AckMax: r.AckMax,
	}
}

// RoundFromRing converts a round of a probe's ring.
func RoundFromRing(r *ledger.Round) Round {
	return Round{
		Outcome: Outcome(r.Outcome), Status: roundStatus(r), Start: r.Start,
		Wake: r.Wake, Get: r.Get, Arm: r.Arm, Drain: r.Drain, Hold: r.Hold, Ack: r.Ack, Total: r.Total,
	}
}

func roundStatus(r *ledger.Round) string {
	switch o := Outcome(r.Outcome); o {
	case OutcomeError, OutcomeCanceled:
		if r.Errno == int32(NoErrno) {
			return r.Call.String() + ": " + ErrNoErrno.Error()
		}
		if r.Errno != 0 {
			return r.Call.String() + ": " + unix.Errno(r.Errno).Error()
		}
		if o == OutcomeError {
			return CompletionStatus(int(r.Completion))
		}
	case OutcomeLostEvent, OutcomeLostCompletion:
		return o.String()
	}
	return ""
}

// Inbox reads the events, rounds and commands that a worker has written into the rings of its ledger, and merges them with the items
// of its stream. Only one goroutine at a time may use it.
type Inbox struct {
	// Check is called with each item of the rings, and the time passed to Merge. It may change the item. If it returns an error,
	// Merge leaves the item out. Items of the stream are not checked here. If Check is nil, all items are kept.
	Check func(it *Item, now int64) error

	led      *ledger.Ledger
	reader   *ledger.Reader
	items    []Item
	runs     []Run
	rounds   []RoundItem
	commands []Command
	now      int64 // passed to the current Merge
	checkErr error // the first error of Check in the current Merge
}

// NewInbox returns the Inbox of a ledger. A ledger may have only one.
func NewInbox(led *ledger.Ledger) *Inbox { return &Inbox{led: led, reader: ledger.NewReader(led)} }

// Merge merges the new entries of the rings into items of the stream. The commands come first. Before each item of the stream come
// the events that were read before it was created (Item.After), and after the last item all further events and the rounds. now is
// CLOCK_MONOTONIC in ns; events that did not fit into the ring get it as their time. The items are valid until the next call. The
// error wraps ledger.ErrDamaged, or the first error of Check; the items read so far are returned with it.
func (i *Inbox) Merge(stream []Item, now int64) ([]Item, error) {
	clear(i.items)
	i.items, i.runs, i.rounds, i.commands = i.items[:0], i.runs[:0], i.rounds[:0], i.commands[:0]
	i.now, i.checkErr = now, nil
	errs := []error{i.reader.Commands(func(c ledger.Command) {
		i.commands = append(i.commands, Command{Call: CommandCall(min(c.Call, math.MaxUint8)), Port: int(c.Port), Mono: c.Mono, Took: c.Took})
		i.addChecked(Item{Command: &i.commands[len(i.commands)-1]})
	})}
	for at := range stream {
		errs = append(errs, i.addRuns(stream[at].After))
		i.items = append(i.items, stream[at])
	}
	errs = append(errs, i.addRuns(^uint64(0)))
	i.reader.Unlisted(func(typ, port int32, events uint64) {
		i.addRun(Run{Type: EventType(typ), Port: int(port), Count: events, First: now, Last: now, Unlisted: true})
	})
	errs = append(errs, i.reader.Rounds(func(port, vector, method int, r *ledger.Round) {
		key := ProbeKey{Port: port, Vector: vector, Method: Method(method)}
		i.rounds = append(i.rounds, RoundItem{ProbeKey: key, Round: RoundFromRing(r)})
		i.addChecked(Item{Round: &i.rounds[len(i.rounds)-1]})
	}))
	return i.items, errors.Join(append(errs, i.checkErr)...)
}

// addRuns adds the runs of the ring up to number end, exclusive.
func (i *Inbox) addRuns(end uint64) error {
	return i.reader.Runs(end, func(r *ledger.Run) { i.addRun(RunFromRing(r)) })
}

func (i *Inbox) addRun(r Run) {
	i.runs = append(i.runs, r)
	i.addChecked(Item{Run: &i.runs[len(i.runs)-1]})
}

// addChecked adds an item of the rings, unless Check returns an error for it.
func (i *Inbox) addChecked(it Item) {
	i.items = append(i.items, it)
	if i.Check == nil {
		return
	}
	last := len(i.items) - 1
	if err := i.Check(&i.items[last], i.now); err != nil {
		i.items = i.items[:last]
		if i.checkErr == nil {
			i.checkErr = err
		}
	}
}
