package history

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/ledger"
	"rdma_events/internal/monitor"
	"rdma_events/internal/process"
	"rdma_events/internal/status"
)

// These are the durations in a worker's run that do not come from its device.
const (
	launching = 30 * time.Millisecond // from the fork to the opening
	killing   = 11 * time.Second      // from a call that hangs to the kill
	closing   = time.Second           // how long closing a device may take
)

// keeper simulates worker.Supervisor and the processes that it starts, in one lane.
type keeper struct {
	h       *host
	device  string
	handler *monitor.Device
	ctx     context.Context // of Run
	begun   chan struct{}   // closed by Run
	left    chan struct{}   // closed to end Run

	lane    *lane
	session *openDevice // nil: no worker runs
	status  status.Status
	started uint64
	crashes uint64
	delay   time.Duration // before the next restart
	woken   bool
}

func newKeeper(h *host, device string, handler *monitor.Device) *keeper {
	k := &keeper{
		h: h, device: device, handler: handler,
		begun: make(chan struct{}), left: make(chan struct{}),
		status: status.Status{Reason: status.ReasonOK},
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

// Wake implements monitor.Supervisor.
func (k *keeper) Wake() {
	k.woken = true
	if k.session == nil {
		k.h.line.rouse(k.lane, k.h.line.now)
	}
}

// runWorkers runs workers, one after another.
func (k *keeper) runWorkers() {
	for {
		why, ok := k.runWorker()
		if !ok || !k.waitBeforeRetry(why) {
			return
		}
	}
}

// runWorker runs one worker and returns why it ended. It returns false at the end of
// the history.
func (k *keeper) runWorker() (why status.End, ok bool) {
	k.started++
	k.set(status.Status{State: status.StateStarting, Reason: k.status.Reason, Message: k.status.Message})
	led, file, err := ledger.New(k.device)
	if err != nil {
		k.h.err = err
		return why, false
	}
	defer led.Close()
	_ = file.Close() // the mapping stays
	k.handler.Started(led)
	if !k.h.line.wait(k.h.line.now + k.h.draw(launching)) {
		return why, false
	}
	k.session = newSession(k, led)
	since := k.h.line.now
	why, ok = k.session.run()
	if !ok {
		return why, false
	}
	if k.h.line.now-since >= int64(process.DefaultTiming().Well) {
		k.delay = 0
	}
	if opened := k.status.State == status.StateRunning; opened && why.Reason != status.ReasonRemoved {
		k.crashes++
	}
	k.handler.Ended(why)
	k.session.release()
	k.session = nil
	return why, true
}

// opened sets the status of a worker that has the device open. The next batch
// reports it.
func (k *keeper) opened() {
	k.h.pids++
	k.status = k.counted(status.Status{State: status.StateRunning, Reason: status.ReasonOK, PID: 1000 + k.h.pids})
}

// waitBeforeRetry waits before the next worker, for a time that depends on why the
// last one ended. It returns false at the end of the history.
func (k *keeper) waitBeforeRetry(why status.End) bool {
	t := process.DefaultTiming()
	n := status.Status{State: status.StateBackingOff, Reason: why.Reason, Message: why.Message}
	until := int64(never)
	switch why.Reason {
	case status.ReasonRemoved:
		n.State = status.StateStopped
	case status.ReasonCrashed, status.ReasonStuck, status.ReasonOK:
		until = k.h.line.now + k.jitter(k.backoff())
		k.woken = false
	default:
		until = k.h.line.now + k.jitter(t.Slow)
	}
	k.set(n)
	for !k.woken && k.h.line.now < until {
		if !k.h.line.wait(until) {
			return false
		}
	}
	k.woken = false
	return true
}

func (k *keeper) backoff() time.Duration {
	t := process.DefaultTiming()
	k.delay = min(max(2*k.delay, t.Retry), t.RetryMax)
	return k.delay
}

// jitter returns d in ns, changed at random by at most a fifth.
func (k *keeper) jitter(d time.Duration) int64 {
	return int64(float64(d) * (0.8 + 0.4*k.h.random.Float64()))
}

func (k *keeper) set(n status.Status) {
	if n = k.counted(n); n != k.status {
		k.status = n
		k.handler.Status(n)
	}
}

func (k *keeper) counted(n status.Status) status.Status {
	n.Restarts, n.Crashes = max(k.started, 1)-1, k.crashes
	return n
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

// die ends the process whose reader is the current lane.
func (h *host) die(signal syscall.Signal) {
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
