package ebpf

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

// hangs finds the threads that wait in a destruction for acknowledgements. All of it has to hold: the object that the thread
// destroyed lacked some, and at each look the same thread sleeps in futex(2) on an address within the object's condition
// variable.
type hangs struct {
	after   int64 // ns
	seen    uint64
	threads map[uint32]*thread
}

// thread is one that has destroyed an object which lacked acknowledgements.
type thread struct {
	wait     traceWait
	looks    int // at which it waited, in a row
	missed   int // at which it did not, in a row
	switches uint64
	woken    bool // it has run since
	reported *trace.Hang
}

func newHangs(after time.Duration) *hangs {
	return &hangs{after: int64(after), threads: map[uint32]*thread{}}
}

func (h *hangs) none() bool { return len(h.threads) == 0 }

// add takes an entry of the map of waits. A thread waits for one object at a time.
func (h *hangs) add(tid uint32, w *traceWait) {
	if t := h.threads[tid]; t != nil && t.wait.Ns == w.Ns {
		t.wait.Missing = w.Missing
		return
	}
	h.threads[tid] = &thread{wait: *w}
}

// patience is at how many looks in a row a thread may do something else: it may be on its way to sleep, or have been woken by
// an acknowledgement that was not the last one.
const patience = 2

// look takes what the threads do now, adds those that hang to the Snapshot, and returns those that wait no more.
func (h *hangs) look(now int64, sights map[uint32]traceSight, p *picture, snap *trace.Update) (gone []uint32) {
	for _, tid := range keysOf(h.threads) {
		t := h.threads[tid]
		s, there := sights[tid]
		t.see(s, there)
		if !there || t.missed >= patience {
			delete(h.threads, tid)
			gone = append(gone, tid)
			continue
		}
		if t.looks >= patience && now-int64(t.wait.Ns) >= h.after {
			t.reported = t.hang(tid, p)
		}
		if t.reported != nil && len(snap.Hangs) < trace.MaxHangs {
			snap.Hangs = append(snap.Hangs, *t.reported)
		}
	}
	slices.SortStableFunc(snap.Hangs, func(a, b trace.Hang) int { return cmp.Compare(a.Since, b.Since) })
	return gone
}

func (t *thread) see(s traceSight, there bool) {
	if !there || !t.sleeps(s) {
		t.missed++
		t.looks = 0
		return
	}
	t.missed = 0
	if t.looks++; t.switches != 0 && s.Switches != t.switches {
		t.woken = true
	}
	t.switches = s.Switches
}

// condSize is sizeof(pthread_cond_t).
const condSize = 48

// sleeps reports whether the thread waits in its object.
func (t *thread) sleeps(s traceSight) bool {
	const interruptible = 1 // TASK_INTERRUPTIBLE
	return s.State&interruptible != 0 && s.Call == unix.SYS_FUTEX &&
		s.Argument >= t.wait.Cond && s.Argument < t.wait.Cond+condSize
}

func (t *thread) hang(tid uint32, p *picture) *trace.Hang {
	h := &trace.Hang{
		Thread: int(tid), Object: scope(t.wait.Object), Number: t.wait.Number, Since: int64(t.wait.Ns),
		Missing: t.wait.Missing, Proof: trace.ProofAsleep,
	}
	if t.woken {
		h.Proof = trace.ProofWaiting
	}
	if t.reported != nil {
		h.Device, h.Process = t.reported.Device, t.reported.Process
	}
	if a := p.accounts[t.wait.Process]; a != nil {
		h.Device, h.Process = a.now.Device, a.now.Process
	}
	return h
}

// scope returns the kind of an object of the kernel (enum uverbs_default_objects in rdma/ib_user_ioctl_cmds.h).
func scope(object uint32) verbs.Scope {
	switch object {
	case 3:
		return verbs.ScopeCQ
	case 4:
		return verbs.ScopeQP
	case 5:
		return verbs.ScopeSRQ
	case 12:
		return verbs.ScopeWQ
	}
	return verbs.ScopeUnknown
}
