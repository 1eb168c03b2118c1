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
	// heartbeat is how often the session records in the ledger that its goroutines run.
	heartbeat = 2500 * time.Millisecond
	// closeTimeout is how long the library may take to close a device. An administrator's
	// command may be waiting for the close.
	closeTimeout = time.Second
	// baselineTimeout is how long the reader waits for the ports' baseline. Firmware that
	// hangs does not answer the queries, and events come all the same.
	baselineTimeout = time.Second
	// lastCommand is how long the end of a watch waits for a command that is under way.
	lastCommand = 100 * time.Millisecond
)

// RemovalWatcher is an interface that a Backend may also implement. WaitRemoved blocks
// until the device is being removed and then returns nil, or until ctx ends.
type RemovalWatcher interface {
	WaitRemoved(ctx context.Context, device string) error
}

// errRemoved ends a session whose device is being removed.
var errRemoved = errors.New("the device is being removed")

// Run opens a device and watches it until ctx ends, the device goes away, or the watch
// fails. It passes batches to send, from one goroutine; send may block, which never
// delays the reader. The parts share the device with the session. Run returns the reason why the device cannot be watched. It returns
// an error instead when ctx ended (the error of ctx), when send failed (the error of
// send), and when the library did not close the device (an error that is verbs.ErrStuck;
// the process should exit then). Run does not wait for a prober whose address is being
// resolved (verbs.ErrResolving).
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
	var wg, asks sync.WaitGroup // asks are those that may hang in the device's firmware
	spawn := func(in *sync.WaitGroup, f func(context.Context) error) {
		in.Go(func() {
			if err := f(work); err != nil && !errors.Is(err, verbs.ErrClosed) { // closed: the watch has ended
				stop(err)
			}
		})
	}
	if w, ok := b.(RemovalWatcher); ok {
		spawn(&wg, func(ctx context.Context) error { return s.watchRemoval(ctx, w) })
	}
	probers := s.makeProbers()
	spawn(&wg, s.read)
	spawn(&wg, s.query)
	spawn(&wg, s.afterBaseline(s.watchGIDs))
	spawn(&asks, s.watchEvidence)
	for i, p := range probers {
		spawn(&wg, s.afterBaseline(func(ctx context.Context) error { return p.run(ctx, i) }))
	}
	for _, p := range s.parts {
		for _, t := range p.Tasks() {
			in := &wg
			if t.MayHang {
				in = &asks
			}
			spawn(in, s.afterBaseline(t.Run))
		}
	}
	sent := s.pump(work, send)
	stop(sent)
	said := false
	for _, p := range s.parts {
		said = p.Stop() || said
	}
	if said && sent == nil && ctx.Err() == nil {
		_ = s.flush(send) // to close the device takes a while; a host that does not hear this hears of the end
	}
	closed := dev.Close(closeTimeout)
	// A goroutine inside the library cannot be joined. A prober whose address is being
	// resolved is no fault, and the process ends soon.
	resolving := errors.Is(closed, verbs.ErrResolving)
	if errors.Is(closed, verbs.ErrStuck) && !resolving {
		return status.End{}, errors.Join(closed, s.flush(send))
	}
	if !resolving {
		wg.Wait()
		awaitCommands(&asks)
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

// afterBaseline returns a function that calls f once every port has its baseline, unless ctx ends before.
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

// awaitCommands waits until the commands have ended, but not for one that hangs: Close did not
// wait for it either, and the process ends soon.
func awaitCommands(asks *sync.WaitGroup) {
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		asks.Wait()
	}()
	t := time.NewTimer(lastCommand)
	defer t.Stop()
	select {
	case <-asked:
	case <-t.C:
	}
}

// flush sends the items that were added after the pump ended.
func (s *session) flush(send func(verbs.Batch) error) error {
	if items := s.out.take(); len(items) > 0 {
		return send(stamp(items))
	}
	return nil
}

// stamp makes a batch of items, with the current time.
func stamp(items []verbs.Item) verbs.Batch {
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
	gidsWake     wake.Signal   // holds a token after an event that may come with a change of a GID table
	drained      chan struct{} // closed when the events that were queued before are read
	baselineDone chan struct{} // closed when every port has its baseline
	asks         *Asker
	parts        []Part // fixed before the goroutines start
}

// port is the state of one port that the session's goroutines share.
type port struct {
	number  int
	probers []*prober                   // fixed before the goroutines start
	seen    atomic.Uint64               // counts the events and state changes that may change what a probe can do
	settled atomic.Uint64               // counts the queries of the port after its events had settled
	event   atomic.Int64                // elapsed() when its last event was read
	due     atomic.Bool                 // the querier has to query the port
	rateDue atomic.Bool                 // the querier has to query its rate alone
	state   atomic.Int32                // a verbs.PortState, from the last query that succeeded
	layer   atomic.Int32                // a verbs.LinkLayer, likewise
	lid     atomic.Int64                // likewise
	pkeys   atomic.Uint64               // counts the events of its P_Keys
	gids    atomic.Pointer[[]verbs.GID] // the last reading of its GID table; nil: none
}

// probed returns what the probers of the port have to know of it.
func (p *port) probed() ProbedPort {
	return ProbedPort{
		Number: p.number, Probers: len(p.probers), State: verbs.PortState(p.state.Load()), Layer: verbs.LinkLayer(p.layer.Load()),
		Seen: p.seen.Load(), Settled: p.settled.Load(),
	}
}

// probesMayChange increments a count of a port, seen or settled, and makes the port's probers
// check whether their probes are outdated. The parts hear of it too.
func (s *session) probesMayChange(p *port, count *atomic.Uint64) {
	count.Add(1)
	for _, prober := range p.probers {
		prober.nudge()
	}
	s.portChanged(p)
}

func newSession(dev verbs.Device, led *ledger.Ledger, o verbs.Options) *session {
	s := &session{dev: dev, led: led, o: o, began: time.Now(), out: newOutbox(led), querierWake: wake.New(),
		evidenceWake: wake.New(), gidsWake: wake.New(), drained: make(chan struct{}), baselineDone: make(chan struct{})}
	s.asks = NewAsker(AskerConfig{
		Device: dev, Options: o, Clock: hostClock{}, Send: func(i verbs.Item) { s.out.add(i) },
		List: func(c *verbs.Command) bool {
			return led.WriteCommand(ledger.Command{Call: uint32(c.Call), Port: uint32(c.Port), Mono: c.Mono, Took: c.Took})
		},
		Late: func() { s.out.ready.Send() }, Wake: func() { s.evidenceWake.Send() },
		Free: func() { s.querierWake.Send() },
	})
	for _, n := range verbs.PortNumbers(dev.Attr().Ports, o.Ports) {
		s.ports = append(s.ports, &port{number: n})
	}
	return s
}

// elapsed returns the ns since the session began, whatever happens to the wall clock.
func (s *session) elapsed() int64 { return int64(time.Since(s.began)) }

// pump sends the items, and records in the ledger that the session lives.
func (s *session) pump(ctx context.Context, send func(verbs.Batch) error) error {
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
		if err := send(stamp(s.out.take())); err != nil {
			return fmt.Errorf("send batch: %w", err)
		}
	}
}

func (s *session) watchRemoval(ctx context.Context, w RemovalWatcher) error {
	if err := w.WaitRemoved(ctx, s.o.Device); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // ending on request is no failure
		}
		return fmt.Errorf("watch for removal of %s: %w", s.o.Device, err)
	}
	return errRemoved
}
