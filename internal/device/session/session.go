package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/sys/wake"
)

const (
	// heartbeat is the interval at which the session records in the ledger that its goroutines run.
	heartbeat = 2500 * time.Millisecond
	// closeTimeout is the time that the library has to close a device. An administrator's
	// command may be waiting for the close.
	closeTimeout = time.Second
	// baselineTimeout is the time that the reader waits for the ports' baseline. Firmware that
	// hangs does not answer the queries, while events still arrive.
	baselineTimeout = time.Second
	// lastCommandTimeout is the time that the end of a session waits for a pending command.
	lastCommandTimeout = 100 * time.Millisecond
)

// RemovalWatcher is an optional interface of a Backend. WaitRemoved blocks until the device
// is being removed, and then returns nil, or until ctx ends.
type RemovalWatcher interface {
	WaitRemoved(ctx context.Context, device string) error
}

// errRemoved ends a session whose device is being removed.
var errRemoved = errors.New("the device is being removed")

// Run opens a device and watches it until ctx ends, the device is removed, or the watch
// fails. It passes batches to send, from one goroutine. send may block without delaying the
// reader. The parts use the device as well.
//
// Run returns the reason why the device can no longer be watched. It returns an error instead
// if ctx ended (the error of ctx), if send failed (the error of send), or if the library did
// not close the device (an error that wraps verbs.ErrStuck; the process should then exit). Run
// does not wait for a prober whose address the kernel is resolving (verbs.ErrResolving).
func Run(ctx context.Context, b verbs.Backend, led *ledger.Ledger, o verbs.Options, send func(verbs.Batch) error,
	parts ...NewPart,
) (status.End, error) {
	dev, err := b.Open(o.Device, led)
	if err != nil {
		return EndedBy(err), nil
	}
	s := newSession(dev, led, o)
	for _, newPart := range parts {
		if p := newPart(s); p != nil {
			s.parts = append(s.parts, p)
		}
	}
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg, mayHang sync.WaitGroup // mayHang has the goroutines that may hang in the device's firmware
	spawn := func(in *sync.WaitGroup, f func(context.Context) error) {
		in.Go(func() {
			if err := f(work); err != nil && !errors.Is(err, verbs.ErrClosed) { // closed: the session has ended
				stop(err)
			}
		})
	}
	if w, ok := b.(RemovalWatcher); ok {
		spawn(&wg, func(ctx context.Context) error { return s.watchRemoval(ctx, w) })
	}
	probers := s.makeProbers()
	spawn(&wg, s.readEvents)
	spawn(&wg, s.watchPorts)
	spawn(&wg, s.afterBaseline(s.watchGIDs))
	spawn(&mayHang, s.watchEvidence)
	for i, p := range probers {
		spawn(&wg, s.afterBaseline(func(ctx context.Context) error { return p.run(ctx, i) }))
	}
	for _, p := range s.parts {
		for _, t := range p.Tasks() {
			in := &wg
			if t.MayHang {
				in = &mayHang
			}
			spawn(in, s.afterBaseline(t.Run))
		}
	}
	sent := s.sendItems(work, send)
	stop(sent)
	partsSent := false
	for _, p := range s.parts {
		partsSent = p.Stop() || partsSent
	}
	if partsSent && sent == nil && ctx.Err() == nil {
		_ = s.flush(send) // before the close, which takes a while; after an error the host still learns that the session ended
	}
	closed := dev.Close(closeTimeout)
	// A goroutine inside the library cannot be joined. A prober whose address is being
	// resolved is no fault, and the process exits soon.
	resolving := errors.Is(closed, verbs.ErrResolving)
	if errors.Is(closed, verbs.ErrStuck) && !resolving {
		return status.End{}, errors.Join(closed, s.flush(send))
	}
	if !resolving {
		wg.Wait()
		awaitCommands(&mayHang)
	}
	if sent != nil || ctx.Err() != nil {
		return status.End{}, errors.Join(ctx.Err(), sent)
	}
	cause := context.Cause(work)
	if errors.Is(cause, errRemoved) || errors.Is(cause, verbs.ErrNoDevice) {
		return status.End{Reason: status.ReasonRemoved, Message: o.Device + " was removed"}, s.flush(send)
	}
	return EndedBy(cause), s.flush(send)
}

// afterBaseline returns a function that calls f once every port has its baseline, unless ctx ends first.
func (s *session) afterBaseline(f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-s.baselineDone:
			return f(ctx)
		}
	}
}

// awaitCommands waits until the commands have ended, for at most lastCommandTimeout. Close did not
// wait for a command that hangs either, and the process exits soon.
func awaitCommands(commands *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		commands.Wait()
	}()
	t := time.NewTimer(lastCommandTimeout)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
	}
}

// flush sends the items that were added after sendItems returned.
func (s *session) flush(send func(verbs.Batch) error) error {
	if items := s.out.takeItems(); len(items) > 0 {
		return send(newBatch(items))
	}
	return nil
}

// newBatch returns a batch of items with the current time.
func newBatch(items []verbs.Item) verbs.Batch {
	wall, mono := clock.Both()
	return verbs.Batch{Wall: wall, Mono: mono, Items: items}
}

// session is one open device.
type session struct {
	dev          verbs.Device
	led          *ledger.Ledger
	o            verbs.Options
	began        time.Time
	ports        []*port
	out          *outbox
	querierWake  wake.Signal   // holds a token that wakes the querier
	evidenceWake wake.Signal   // holds a token while a port waits for a snapshot
	gidsWake     wake.Signal   // holds a token after an event that may accompany a change of a GID table
	drained      chan struct{} // closed when the initially queued events have been read
	baselineDone chan struct{} // closed when every port has its baseline
	asker        *Asker
	parts        []Part // fixed before the goroutines start
}

// port is the state of one port that the session's goroutines share.
type port struct {
	number  int
	probers []*prober                   // fixed before the goroutines start
	seen    atomic.Uint64               // counts the events and state changes that may affect probes
	settled atomic.Uint64               // counts the queries made after the port's events had settled
	event   atomic.Int64                // elapsed() when the port's last event was read
	due     atomic.Bool                 // the querier has to query the port
	rateDue atomic.Bool                 // the querier has to query the port's rate alone
	state   atomic.Int32                // verbs.PortState by the last successful query
	layer   atomic.Int32                // verbs.LinkLayer by the last successful query
	lid     atomic.Int64                // LID by the last successful query
	pkeys   atomic.Uint64               // counts the port's P_Key events
	gids    atomic.Pointer[[]verbs.GID] // the last reading of the GID table; nil: none yet
}

// probedPort returns the port's state for its probers.
func (p *port) probedPort() ProbedPort {
	return ProbedPort{
		Number: p.number, Probers: len(p.probers), State: verbs.PortState(p.state.Load()), Layer: verbs.LinkLayer(p.layer.Load()),
		Seen: p.seen.Load(), Settled: p.settled.Load(),
	}
}

// invalidateProbes increments a count of a port, seen or settled, and makes the port's probers
// check whether their probes are outdated. It also calls PortChanged of the parts.
func (s *session) invalidateProbes(p *port, count *atomic.Uint64) {
	count.Add(1)
	for _, prober := range p.probers {
		prober.nudge()
	}
	s.portChanged(p)
}

func newSession(dev verbs.Device, led *ledger.Ledger, o verbs.Options) *session {
	s := &session{dev: dev, led: led, o: o, began: time.Now(), out: newOutbox(led), querierWake: wake.New(),
		evidenceWake: wake.New(), gidsWake: wake.New(), drained: make(chan struct{}), baselineDone: make(chan struct{})}
	s.asker = NewAsker(AskerConfig{
		Device: dev, Options: o, Clock: hostClock{}, Send: s.Send,
		WriteCommand: func(c *verbs.Command) bool {
			return led.WriteCommand(ledger.Command{Call: uint32(c.Call), Port: uint32(c.Port), Mono: c.Mono, Took: c.Took})
		},
		OnStuck: func() { s.out.ready.Send() }, OnSnapshotDue: func() { s.evidenceWake.Send() },
		OnRTNLFree: func() { s.querierWake.Send() },
	})
	attr := dev.Attr()
	for _, n := range attr.WatchedPorts(o.Ports) {
		s.ports = append(s.ports, &port{number: n})
	}
	return s
}

// elapsed returns the ns since the session began, independently of the wall clock.
func (s *session) elapsed() int64 { return int64(time.Since(s.began)) }

// sendItems sends the items of the outbox until ctx ends, and records heartbeats in the ledger.
func (s *session) sendItems(ctx context.Context, send func(verbs.Batch) error) error {
	beat := wake.NewTicker(heartbeat, s.began)
	defer beat.Stop()
	for {
		s.led.SetAlive(clock.Monotonic())
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			beat.Next()
			continue
		case <-s.out.ready:
		}
		if err := send(newBatch(s.out.takeItems())); err != nil {
			return fmt.Errorf("send batch: %w", err)
		}
	}
}

func (s *session) watchRemoval(ctx context.Context, w RemovalWatcher) error {
	if err := w.WaitRemoved(ctx, s.o.Device); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is no failure
		}
		return fmt.Errorf("watch for removal of %s: %w", s.o.Device, err)
	}
	return errRemoved
}
