package endpoint

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"rdma_events/internal/device/session"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

const (
	// runTime is the time for which a Fabric runs before its facts are sent, if no echo is missing.
	runTime = 500 * time.Millisecond
	// restTime is the time without a Fabric after one was closed, and the minimum time after a failed attempt to build one. In this time peers
	// learn that the old Fabric no longer exists. It also prevents a flapping port from creating hundreds of queue pairs.
	restTime = time.Second
	// maxRestTime limits the time after failed attempts, which doubles with each one.
	maxRestTime = time.Minute
	// closeTimeout limits the time in which the library closes a Fabric. An administrator's command may be waiting for that.
	closeTimeout = time.Second
	// maxFacts is the maximum number of facts that one Run may return: half a second of facts of the maximum number of pairs at the shortest
	// interval, plus the space that a backend leaves unused.
	maxFacts = 2 * verbs.MinFabricFacts
)

// portFabric manages the Fabric of one port. It builds and runs a Fabric while the port is active, and replaces the Fabric when the port or
// its addresses change. One goroutine does that (keepFabric), and another one carries out orders (carryOutOrders).
type portFabric struct {
	s      session.Session
	port   int
	random func() uint64 // chooses epochs
	nudged wake.Signal   // holds a token after nudge, for a port without a Fabric
	orders chan verbs.FabricRequest

	mu        sync.Mutex
	open      verbs.FabricEndpoint // guarded by mu; nil: there is none
	epoch     uint64               // guarded by mu: epoch of open
	lastOrder chan struct{}        // guarded by mu: closed when the last order that was begun has ended; nil: none was begun

	description verbs.FabricPort // description of the port for the host
	announced   bool             // the host has the description
	builtFrom   portAttrs        // the port attributes from which the Fabric was built
	retryRest   time.Duration    // the rest after the last failed attempt; 0: the last attempt succeeded
	facts       []verbs.FabricFact
	silence     silence
	sentUpTo    int64 // time up to which facts were sent, CLOCK_MONOTONIC ns
}

// newPortFabric returns the portFabric of a port. random must return numbers that no other worker uses.
func newPortFabric(s session.Session, port int, random func() uint64) *portFabric {
	return &portFabric{s: s, port: port, random: random, nudged: wake.New(),
		orders: make(chan verbs.FabricRequest, maxQueuedOrders), facts: make([]verbs.FabricFact, maxFacts)}
}

// keepFabric builds and runs Fabrics until ctx ends or the device turns out to support none. An error ends the session.
func (f *portFabric) keepFabric(ctx context.Context) error {
	for ctx.Err() == nil {
		if why := whyInactive(f.s.Port(f.port).State); why != "" {
			f.announceNone(why)
			f.awaitNudge(ctx, nil)
			continue
		}
		if f.s.Full() { // the facts of another Fabric would be lost too
			sleep(ctx, restTime)
			continue
		}
		f.awaitDevice(ctx)
		if err := f.runOnce(ctx); err != nil {
			if errors.Is(err, verbs.ErrNeverFabric) {
				return nil
			}
			return err
		}
	}
	return nil // the device closes its Fabrics
}

// runOnce builds a Fabric, runs it until it has to end, closes it and rests. After an error, no other Fabric must be built.
func (f *portFabric) runOnce(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the end was requested
	}
	open, err := f.build()
	if err != nil {
		return f.handleFailure(ctx, err)
	}
	f.retryRest = 0
	why, err := f.keepRunning(ctx, open)
	if err != nil || ctx.Err() != nil {
		return err
	}
	f.announceNone(why)
	if err := f.closeFabric(ctx); err != nil {
		return err
	}
	sleep(ctx, restTime)
	return nil
}

// handleFailure announces why no Fabric was built, and rests. A change of the port ends the rest early.
func (f *portFabric) handleFailure(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, verbs.ErrClosed), errors.Is(err, verbs.ErrNoDevice):
		return err
	case errors.Is(err, verbs.ErrNeverFabric):
		f.announce(verbs.FabricPort{Port: f.port, Reason: err.Error(), Unable: true})
		return err
	}
	f.announceNone(err.Error())
	f.retryRest = min(max(2*f.retryRest, restTime), maxRestTime)
	if !sleep(ctx, restTime) {
		return nil
	}
	if f.awaitNudge(ctx, time.After(f.retryRest-restTime)) {
		f.retryRest = 0 // the port has changed, so the next attempt may succeed
	}
	return nil
}

// build builds a Fabric and announces it.
func (f *portFabric) build() (verbs.FabricEndpoint, error) {
	select {
	case <-f.nudged: // the current attributes of the port are read below
	default:
	}
	f.builtFrom = attrsOf(f.s.Port(f.port))
	if f.s.Refused(f.port, verbs.ReadQueryPort) {
		return nil, fmt.Errorf("query the port: %w", verbs.ErrRefused)
	}
	open, at, err := f.s.Device().NewFabricEndpoint(verbs.FabricConfig{Port: f.port, FabricOptions: f.s.Options().Fabric})
	if err != nil {
		return nil, err
	}
	at.Port, at.Epoch, at.Reason, at.Unable = f.port, newEpoch(f.random), "", false
	f.mu.Lock()
	f.open, f.epoch = open, at.Epoch
	f.mu.Unlock()
	f.silence = silence{}
	f.announce(at)
	return open, nil
}

// newEpoch returns a random epoch, which is never 0: 0 means that there is no Fabric.
func newEpoch(random func() uint64) uint64 {
	for {
		if epoch := random(); epoch != 0 {
			return epoch
		}
	}
}

// keepRunning runs a Fabric until it has to end and returns why. An error ends the session. keepRunning locks its thread, because the thread
// measures latencies.
func (f *portFabric) keepRunning(ctx context.Context, open verbs.FabricEndpoint) (why string, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	lasting := runTime
	for ctx.Err() == nil {
		if why := f.whyOutdated(); why != "" {
			return why, nil
		}
		n, upTo, err := open.Run(f.facts, lasting)
		if n > 0 || err == nil {
			if !f.sendFacts(f.facts[:n], upTo, lasting) {
				return "the host does not read what the port sees", nil
			}
			lasting = f.silence.nextRunTime(upTo)
		}
		switch {
		case errors.Is(err, verbs.ErrClosed), errors.Is(err, verbs.ErrNoDevice):
			return "", err
		case err != nil:
			return err.Error(), nil // the next Fabric may work
		}
	}
	return "", nil
}

// sendFacts sends the facts of a Run that was to last for lasting. It also sends a message without facts, since the host updates verdicts
// as of upTo, unless a nudge has ended the Run early. It returns false if facts were lost.
func (f *portFabric) sendFacts(facts []verbs.FabricFact, upTo int64, lasting time.Duration) bool {
	f.silence.record(facts)
	if len(facts) == 0 && upTo-f.sentUpTo < int64(lasting) {
		return true
	}
	f.sentUpTo = upTo
	return f.s.SendFacts(verbs.FabricFacts{Port: f.port, Epoch: f.description.Epoch, UpTo: upTo, Facts: facts})
}

// closeFabric closes the Fabric. It first waits for the order that is under way, because Close would miss objects that the order is
// creating in the device. An error ends the session.
func (f *portFabric) closeFabric(ctx context.Context) error {
	open, order := f.detach()
	if order != nil {
		select {
		case <-ctx.Done():
		case <-order:
		}
	}
	f.awaitDevice(ctx)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the end was requested, and the device closes the Fabric
	}
	err := open.Close(closeTimeout)
	if errors.Is(err, verbs.ErrStuck) || errors.Is(err, verbs.ErrClosed) {
		return err
	}
	return nil // a failed destroy cannot be repaired; the device's Close reports its own error
}

// awaitDevice waits until the device answers commands, because building and closing a Fabric take many commands. A prober does the same.
func (f *portFabric) awaitDevice(ctx context.Context) {
	for !f.s.Answers() && sleep(ctx, verbs.AnswerLimit) {
	}
}

// announceNone announces that the port has no Fabric, and why.
func (f *portFabric) announceNone(why string) {
	f.announce(verbs.FabricPort{Port: f.port, Reason: why})
}

// announce sends the description of the port to the host, unless the host already has it.
func (f *portFabric) announce(at verbs.FabricPort) {
	if f.announced && at.Epoch == 0 && f.description.Epoch == 0 && at.Reason == f.description.Reason && at.Unable == f.description.Unable {
		return
	}
	f.description, f.announced = at, true
	f.s.Send(verbs.Item{FabricPort: &at})
}

// nudge makes keepFabric check whether the port has changed.
func (f *portFabric) nudge() {
	f.nudged.Send()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		f.open.Nudge()
	}
}

// awaitNudge waits for a nudge. It returns false if until fires or ctx ends first.
func (f *portFabric) awaitNudge(ctx context.Context, until <-chan time.Time) bool {
	select {
	case <-f.nudged:
		return true
	case <-until:
	case <-ctx.Done():
	}
	return false
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
