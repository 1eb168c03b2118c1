package history

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/monitor"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
)

// These are the durations in a worker's run that do not come from its device.
const (
	launching = 30 * time.Millisecond // from the fork to the opening
	killing   = 11 * time.Second      // from a call that hangs to the kill
	closing   = time.Second           // how long closing a device may take
)

// supervised is a program that runs again and again in a lane, as process.Supervisor has it.
type supervised struct {
	h        *host
	lane     *lane
	restarts *process.Restarts
	report   func(status.Status) // gets each status that no message brings

	status  status.Status
	started uint64
	crashes uint64
	running int64 // since when
	waits   bool  // for the next start
	woken   bool
}

func newSupervised(h *host, report func(status.Status)) supervised {
	return supervised{
		h: h, report: report, restarts: process.NewRestarts(process.DefaultTiming(), h.random.Float64),
		status: status.Status{Reason: status.ReasonOK},
	}
}

// starts reports that a program starts.
func (s *supervised) starts() {
	s.started++
	s.set(status.Status{State: status.StateStarting, Reason: s.status.Reason, Message: s.status.Message})
}

// opened sets the status of a program that runs. The next message reports it.
func (s *supervised) opened() {
	s.h.pids++
	s.running = s.h.line.now
	s.status = s.counted(status.Status{State: status.StateRunning, Reason: status.ReasonOK, PID: 1000 + s.h.pids})
}

// ended notes that a program has ended.
func (s *supervised) ended(retry process.Retry) {
	if s.status.State != status.StateRunning {
		return // it never ran
	}
	s.restarts.RanWell(time.Duration(s.h.line.now - s.running))
	if retry != process.OnWake {
		s.crashes++
	}
}

// waitToRetry waits until the next program is due. It returns false at the end of the history.
func (s *supervised) waitToRetry(why status.End, retry process.Retry) bool {
	next, until := s.restarts.After(retry), int64(never)
	if retry != process.OnWake {
		until = s.h.line.now + int64(next.For)
	}
	s.set(status.Status{State: next.State, Reason: why.Reason, Message: why.Message + "; " + next.Plan})
	s.waits = true
	for s.h.line.now < until && (!next.Wakes || !s.woken) {
		if !s.h.line.wait(until) {
			return false
		}
	}
	s.waits = false
	if next.Wakes {
		s.woken = false
	}
	return true
}

// Wake implements monitor.Supervisor.
func (s *supervised) Wake() {
	s.woken = true
	if s.waits {
		s.h.line.rouse(s.lane, s.h.line.now)
	}
}

func (s *supervised) set(n status.Status) {
	if n = s.counted(n); n != s.status {
		s.status = n
		s.report(n)
	}
}

func (s *supervised) counted(n status.Status) status.Status {
	n.Restarts, n.Crashes = max(s.started, 1)-1, s.crashes
	return n
}

// keeper simulates worker.Supervisor and the processes that it starts, in one lane.
type keeper struct {
	supervised
	device  string
	handler *monitor.Device
	ctx     context.Context // of Run
	begun   chan struct{}   // closed by Run
	left    chan struct{}   // closed to end Run
	session *openDevice     // nil: no worker runs
	rings   *verbs.Inbox    // of the worker that runs
}

func newKeeper(h *host, device string, handler *monitor.Device) *keeper {
	k := &keeper{
		supervised: newSupervised(h, handler.Status), device: device, handler: handler,
		begun: make(chan struct{}), left: make(chan struct{}),
	}
	k.lane = h.line.start(h.line.now, k.runWorkers)
	return k
}

// Run implements monitor.Supervisor.
func (k *keeper) Run(ctx context.Context) error {
	k.ctx = ctx
	close(k.begun)
	<-k.left
	return nil
}

// runWorkers runs workers, one after another.
func (k *keeper) runWorkers() {
	for {
		why, ok := k.runWorker()
		if !ok || !k.waitToRetry(why, worker.RetryAfter(why.Reason)) {
			return
		}
	}
}

// runWorker runs one worker and returns why it ended. It returns false at the end of
// the history.
func (k *keeper) runWorker() (why status.End, ok bool) {
	k.starts()
	led, file, err := ledger.New(k.device)
	if err != nil {
		k.h.err = err
		return why, false
	}
	defer led.Close()
	_ = file.Close() // the mapping stays
	k.rings = verbs.NewInbox(led)
	k.handler.Started(led, k.collect)
	if !k.h.line.wait(k.h.line.now + k.h.draw(launching)) {
		return why, false
	}
	k.session = newSession(k, led)
	if why, ok = k.session.run(); !ok {
		return why, false
	}
	k.ended(worker.RetryAfter(why.Reason))
	k.handler.Ended(why)
	k.session.release()
	k.session = nil
	return why, true
}

// takeRings returns items with what the simulator has written into the rings of the ledger.
func (k *keeper) takeRings(items []verbs.Item) []verbs.Item {
	all, err := k.rings.Merge(items, k.h.line.now)
	if err != nil {
		k.h.err = err
	}
	return all
}

// collect hands over what the rings have, as at each ring of the doorbell.
func (k *keeper) collect() {
	if items := k.takeRings(nil); len(items) > 0 {
		k.h.lag = k.h.draw(150 * time.Microsecond)
		k.handler.RingItems(items)
		k.h.lag = 0
	}
}

// inCall implements the waiting of the simulator: for an event, or in a call that
// hangs. It kills a worker that hangs. It returns false if the caller is to give up.
func (h *host) inCall(until int64) bool {
	l := h.line.current
	if l == nil {
		return false
	}
	if l.limit > 0 && until-h.line.now > l.limit {
		h.line.wait(h.line.now + l.limit)
		return false
	}
	if s := h.sessionOf(l); s != nil && until-h.line.now > int64(killing) {
		h.line.start(h.line.now+int64(killing), s.killStuck)
	}
	// A lane that another event wakes early stays in its call.
	for h.line.now < until {
		if !h.line.wait(until) {
			return false
		}
	}
	return true
}

// die ends the process whose reader is the current lane, or the tracer, when it next returns.
func (h *host) die(signal syscall.Signal) {
	if t := h.tracing; t != nil && t.lane == h.line.current {
		t.died = signal
	}
	if s := h.sessionOf(h.line.current); s != nil {
		s.finish(status.End{Reason: status.ReasonCrashed, Message: "died of " + unix.SignalName(signal)})
		panic(died{})
	}
}

func (h *host) sessionOf(l *lane) *openDevice {
	for _, k := range h.keepers {
		if k.session != nil && k.session.has(l) {
			return k.session
		}
	}
	return nil
}
