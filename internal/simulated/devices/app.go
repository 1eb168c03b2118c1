package devices

import (
	"slices"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/device/verbs"
)

// appEntry is an [[app]] of a scenario: processes of one name that hold objects of a device.
type appEntry struct {
	target
	window
	name, unit string
	processes  int
	counts     [verbs.ObjectKinds]uint32 // of each process
	state      int                       // state of the queue pairs
	index      int                       // index of its table, for errors
	thread     int                       // number of its first process
	behaviour
}

// The numbers of simulated threads are high, but possible on Linux (PID_MAX_LIMIT, 4 << 20).
const (
	firstThread  = 1 << 21
	maxProcesses = 1000
	maxApps      = 2000
)

// maxHeld is the maximum number of objects of a kind that a process holds.
const maxHeld = 100_000

func readApp(t *table) appEntry {
	states := []string{"reset", "init", "rtr", "rts", "sqd", "sqe", "error"} // by their numbers
	held := func(key string, fallback int64) uint32 { return uint32(t.integer(key, fallback, 0, maxHeld)) }
	e := appEntry{
		target: readTarget(t, false), window: t.window("for"), index: t.index, thread: firstThread + t.index*maxProcesses,
		name: t.text("name", ""), unit: t.text("unit", ""),
		processes: int(t.integer("processes", 1, 1, maxProcesses)),
		counts: [verbs.ObjectKinds]uint32{
			verbs.ObjectContext: 1, verbs.ObjectPD: held("pds", 1), verbs.ObjectCQ: held("cqs", 2),
			verbs.ObjectSRQ: held("srqs", 0), verbs.ObjectQP: held("qps", 8),
		},
		state: slices.Index(states, t.choice("state", "rts", states)),
	}
	if t.index >= maxApps {
		t.fail("name", "is one of more than %d applications", maxApps)
	}
	if e.name == "" || len(e.name) > 15 {
		t.fail("name", "is %q; allowed: the name of a process, up to 15 bytes", e.name)
	}
	e.behaviour = readBehaviour(t, e.length)
	return e
}

// holder returns the objects that the process of a thread holds.
func (e *appEntry) holder(thread int) verbs.Holder {
	h := verbs.Holder{Thread: thread, Counts: e.counts}
	h.States[e.state] = e.counts[verbs.ObjectQP]
	return h
}

// ListObjects implements verbs.Device. The kernel holds a few objects of every device.
func (d *device) ListObjects(kinds ...verbs.ObjectKind) (*verbs.Objects, error) {
	if err := d.checkPresent(); err != nil {
		return nil, opError("list objects", d.attr.Name, 0, err)
	}
	o := &verbs.Objects{Mono: d.w.clock()}
	kernel := appEntry{counts: [verbs.ObjectKinds]uint32{
		verbs.ObjectPD: 1, verbs.ObjectCQ: uint32(d.attr.Ports), verbs.ObjectQP: uint32(d.attr.Ports),
	}, state: 3} // ready to send
	all := []verbs.Holder{kernel.holder(0)}
	all[0].Kernel = true
	for i := range d.h.apps {
		e := &d.h.apps[i]
		if _, active := e.active(o.Mono); !active {
			continue
		}
		for n := range e.processes {
			all = append(all, e.holder(e.thread+n))
		}
	}
	for _, kind := range kinds {
		o.Lists[kind].State = verbs.ListComplete
	}
	for _, h := range all {
		for kind := range h.Counts {
			if o.Lists[kind].State != verbs.ListComplete {
				h.Counts[kind] = 0
			}
		}
		if o.Lists[verbs.ObjectQP].State != verbs.ListComplete {
			h.States = [verbs.QPStates]uint32{}
		}
		o.Holders = append(o.Holders, h)
	}
	return o, nil
}

// checkPresent returns ErrClosed or ErrNoDevice if the device cannot be queried.
func (d *device) checkPresent() error { return d.withLink(1, func(*link) error { return nil }) }

// Process is a simulated process.
type Process struct {
	PID        int
	Start      int64 // CLOCK_MONOTONIC ns
	Name, Unit string
}

// Identity returns the identity that package identity would find for the process.
func (p Process) Identity() identity.Process {
	return identity.Process{PID: p.PID, Start: uint64(p.Start), Comm: identity.CleanComm(p.Name), Unit: p.Unit}
}

// Process returns the process of a thread in a device's Objects. It returns false if there is none at a time of
// CLOCK_MONOTONIC.
func (w *World) Process(thread int, at int64) (Process, bool) {
	for _, h := range w.hardware {
		for i := range h.apps {
			e := &h.apps[i]
			if thread < e.thread || thread >= e.thread+e.processes {
				continue
			}
			if _, active := e.active(at); !active {
				return Process{}, false
			}
			start, _ := e.last(at)
			return e.process(start, thread-e.thread), true
		}
	}
	return Process{}, false
}
