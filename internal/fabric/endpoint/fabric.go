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
	// fabricRun is how long a Fabric runs before its facts are sent, if nothing is missing.
	fabricRun = 500 * time.Millisecond
	// fabricRest is how long a port rests after its Fabric, and at least after an attempt to make one. Peers hear that the
	// old one is gone, and a port that flutters makes no hundreds of queue pairs.
	fabricRest = time.Second
	// fabricRestMax limits the rests after attempts that fail, which double.
	fabricRestMax = time.Minute
	// closeTimeout is how long the library may take to close a Fabric. An administrator's command may be waiting for the close.
	closeTimeout = time.Second
	// maxFacts is how many facts one Run may return: those of half a second of the most pairs at the shortest interval, and what
	// a backend leaves free.
	maxFacts = 2 * verbs.MinFabricFacts
)

// fabric keeps the Fabric of one port: it makes it while the port is active, runs it, and makes it anew when the port or its
// addresses change. Its own goroutine does that; another one carries out orders (carryOut).
type fabric struct {
	s      session.Session
	port   int
	random func() uint64 // chooses epochs
	nudged wake.Signal   // holds a token of nudge, for a port without a Fabric
	queue  chan verbs.FabricRequest

	mu    sync.Mutex
	open  verbs.Fabric  // under mu; nil: there is none
	epoch uint64        // under mu: of open
	order chan struct{} // under mu: closed when the last order that began has ended; nil: none has begun

	at        verbs.FabricPort // as the host knows it
	announced bool             // the host knows at
	basis     basis            // what at came of
	failing   time.Duration    // the rest after the last attempt, if it failed
	facts     []verbs.FabricFact
	silence   silence
	sent      int64 // up to when facts were sent, CLOCK_MONOTONIC ns
}

// newFabric returns the fabric of a port. random returns numbers that no other worker's random returns.
func newFabric(s session.Session, port int, random func() uint64) *fabric {
	return &fabric{s: s, port: port, random: random, nudged: wake.New(),
		queue: make(chan verbs.FabricRequest, maxOrders), facts: make([]verbs.FabricFact, maxFacts)}
}

// run keeps the Fabric until ctx ends or the device cannot have one. The error ends the session.
func (f *fabric) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if why := whyInactive(f.s.Port(f.port).State); why != "" {
			f.announceNone(why)
			f.awaitNudge(ctx, nil)
			continue
		}
		if f.s.Full() { // another Fabric would lose its facts too
			wait(ctx, fabricRest)
			continue
		}
		f.awaitAnswers(ctx)
		if err := f.attempt(ctx); err != nil {
			if errors.Is(err, verbs.ErrNeverFabric) {
				return nil
			}
			return err
		}
	}
	return nil // the device closes its Fabrics
}

// attempt makes a Fabric, runs it until it has to end, and rests. The error is one after which none is made again.
func (f *fabric) attempt(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // ending on request is no failure
	}
	open, err := f.make()
	if err != nil {
		return f.failed(ctx, err)
	}
	f.failing = 0
	why, err := f.keepRunning(ctx, open)
	if err != nil || ctx.Err() != nil {
		return err
	}
	f.announceNone(why)
	if err := f.drop(ctx); err != nil {
		return err
	}
	wait(ctx, fabricRest)
	return nil
}

// failed announces why no Fabric was made, and rests, at most until the port changes.
func (f *fabric) failed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, verbs.ErrClosed), errors.Is(err, verbs.ErrNoDevice):
		return err
	case errors.Is(err, verbs.ErrNeverFabric):
		f.announce(verbs.FabricPort{Port: f.port, Reason: err.Error(), Unable: true})
		return err
	}
	f.announceNone(err.Error())
	f.failing = min(max(2*f.failing, fabricRest), fabricRestMax)
	if !wait(ctx, fabricRest) {
		return nil
	}
	if f.awaitNudge(ctx, time.After(f.failing-fabricRest)) {
		f.failing = 0 // what is tried next is something else
	}
	return nil
}

// make makes a Fabric, and announces it.
func (f *fabric) make() (verbs.Fabric, error) {
	select {
	case <-f.nudged: // what it is about is looked at now
	default:
	}
	f.basis = basisOf(f.s.Port(f.port))
	if f.s.Refused(f.port, verbs.ReadQueryPort) {
		return nil, fmt.Errorf("query the port: %w", verbs.ErrRefused)
	}
	open, at, err := f.s.Device().NewFabric(verbs.FabricConfig{Port: f.port, FabricOptions: f.s.Options().Fabric})
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

// newEpoch returns the epoch of a Fabric. 0 stands for none.
func newEpoch(random func() uint64) uint64 {
	for {
		if epoch := random(); epoch != 0 {
			return epoch
		}
	}
}

// keepRunning runs a Fabric until it has to end, and returns why. The error ends the session. It keeps its thread for the
// reason that a prober has: the latencies are measured in it.
func (f *fabric) keepRunning(ctx context.Context, open verbs.Fabric) (why string, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	lasting := fabricRun
	for ctx.Err() == nil {
		if why := f.outdated(); why != "" {
			return why, nil
		}
		n, upTo, err := open.Run(f.facts, lasting)
		if n > 0 || err == nil {
			if !f.send(f.facts[:n], upTo, lasting) {
				return "the host does not read what the port sees", nil
			}
			lasting = f.silence.lasting(upTo)
		}
		switch {
		case errors.Is(err, verbs.ErrClosed), errors.Is(err, verbs.ErrNoDevice):
			return "", err
		case err != nil:
			return err.Error(), nil // it is announced, and the next Fabric may do better
		}
	}
	return "", nil
}

// send sends what a Run saw that was to last for a time. Without facts it is sent for upTo, at which the host judges, but not
// if a nudge has ended the Run early. It reports whether nothing was lost.
func (f *fabric) send(facts []verbs.FabricFact, upTo int64, lasting time.Duration) bool {
	f.silence.note(facts)
	if len(facts) == 0 && upTo-f.sent < int64(lasting) {
		return true
	}
	f.sent = upTo
	return f.s.SendFacts(verbs.FabricFacts{Port: f.port, Epoch: f.at.Epoch, UpTo: upTo, Facts: facts})
}

// drop closes the Fabric. It first waits for an order that is under way: what the order makes in the device, Close would not
// find. The error ends the session.
func (f *fabric) drop(ctx context.Context) error {
	open, order := f.detach()
	if order != nil {
		select {
		case <-ctx.Done():
		case <-order:
		}
	}
	f.awaitAnswers(ctx)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // ending on request is no failure, and the device closes it
	}
	err := open.Close(closeTimeout)
	if errors.Is(err, verbs.ErrStuck) || errors.Is(err, verbs.ErrClosed) {
		return err
	}
	return nil // nothing can be done about a failed destroy; the device's Close reports its own error
}

// awaitAnswers waits until the device answers its commands, as a prober does, since to make or destroy a Fabric takes many.
func (f *fabric) awaitAnswers(ctx context.Context) {
	for !f.s.Answers() && wait(ctx, verbs.AnswerLimit) {
	}
}

// announceNone announces that there is no Fabric.
func (f *fabric) announceNone(why string) {
	f.announce(verbs.FabricPort{Port: f.port, Reason: why})
}

// announce sends how the port is reached, or why it is not, unless that is what the host knows.
func (f *fabric) announce(at verbs.FabricPort) {
	if f.announced && at.Epoch == 0 && f.at.Epoch == 0 && at.Reason == f.at.Reason && at.Unable == f.at.Unable {
		return
	}
	f.at, f.announced = at, true
	f.s.Send(verbs.Item{FabricPort: &at})
}

// nudge makes the goroutine look again whether the port is as it was.
func (f *fabric) nudge() {
	f.nudged.Send()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		f.open.Nudge()
	}
}

// awaitNudge waits for a nudge, and reports whether one came before until and the end of ctx.
func (f *fabric) awaitNudge(ctx context.Context, until <-chan time.Time) bool {
	select {
	case <-f.nudged:
		return true
	case <-until:
	case <-ctx.Done():
	}
	return false
}

// wait waits for a time, and reports whether ctx has not ended meanwhile.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
