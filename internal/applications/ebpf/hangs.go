package ebpf

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

// hangDetector finds threads that hang while they destroy an object. A thread hangs if the destroyed object lacks acknowledgements and the
// thread, at each look, sleeps in futex(2) at an address within the object's condition variable.
type hangDetector struct {
	after   int64  // time after which a wait is a hang, ns
	seen    uint64 // board.Waits at the last reading of the map
	threads map[uint32]*thread
}

// thread is a thread that has destroyed an object which lacked acknowledgements.
type thread struct {
	wait         traceWait
	waitingLooks int    // consecutive looks at which it waited
	otherLooks   int    // consecutive looks at which it did not wait
	switches     uint64 // context switches at the last look
	woken        bool   // it has run since the wait began
	reported     *trace.Hang
}

func newHangDetector(after time.Duration) *hangDetector {
	return &hangDetector{after: int64(after), threads: map[uint32]*thread{}}
}

func (h *hangDetector) isEmpty() bool { return len(h.threads) == 0 }

// addWait adds an entry of the map of waits. A thread waits for one object at a time.
func (h *hangDetector) addWait(tid uint32, w *traceWait) {
	if t := h.threads[tid]; t != nil && t.wait.Ns == w.Ns {
		t.wait.Missing = w.Missing
		return
	}
	h.threads[tid] = &thread{wait: *w}
}

// minLooks is the number of consecutive looks after which a thread counts as waiting, or as not waiting any more. At a single look, it may
// be about to sleep, or an acknowledgement that was not the last one may have woken it.
const minLooks = 2

// update evaluates the current state of the threads. It adds hanging threads to the Update, and returns the threads that no longer wait.
func (h *hangDetector) update(now int64, sights map[uint32]traceSight, p *processCounts, snap *trace.Update) (gone []uint32) {
	for _, tid := range sortedKeys(h.threads) {
		t := h.threads[tid]
		s, there := sights[tid]
		t.observe(s, there)
		if !there || t.otherLooks >= minLooks {
			delete(h.threads, tid)
			gone = append(gone, tid)
			continue
		}
		if t.waitingLooks >= minLooks && now-int64(t.wait.Ns) >= h.after {
			t.reported = t.newHang(tid, p)
		}
		if t.reported != nil && len(snap.Hangs) < trace.MaxHangs {
			snap.Hangs = append(snap.Hangs, *t.reported)
		}
	}
	slices.SortStableFunc(snap.Hangs, func(a, b trace.Hang) int { return cmp.Compare(a.Since, b.Since) })
	return gone
}

func (t *thread) observe(s traceSight, there bool) {
	if !there || !t.isWaiting(s) {
		t.otherLooks++
		t.waitingLooks = 0
		return
	}
	t.otherLooks = 0
	if t.waitingLooks++; t.switches != 0 && s.Switches != t.switches {
		t.woken = true
	}
	t.switches = s.Switches
}

// condSize is sizeof(pthread_cond_t).
const condSize = 48

// isWaiting reports whether the thread sleeps in the destruction of its object.
func (t *thread) isWaiting(s traceSight) bool {
	const interruptible = 1 // TASK_INTERRUPTIBLE
	return s.State&interruptible != 0 && s.Call == unix.SYS_FUTEX &&
		s.Argument >= t.wait.Cond && s.Argument < t.wait.Cond+condSize
}

func (t *thread) newHang(tid uint32, p *processCounts) *trace.Hang {
	h := &trace.Hang{
		Thread: int(tid), Object: scopeOf(t.wait.Object), Number: t.wait.Number, Since: int64(t.wait.Ns),
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

// scopeOf converts a kind of object of the kernel (enum uverbs_default_objects in rdma/ib_user_ioctl_cmds.h).
func scopeOf(object uint32) verbs.Scope {
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
