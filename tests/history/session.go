package history

import (
	"errors"
	"slices"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/session"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// settled is the time after the last event after which ports are queried again, as
// in package session.
const settled = 100 * time.Millisecond

// openDevice simulates package session on one open device.
type openDevice struct {
	k       *keeper
	line    *timeline
	led     *ledger.Ledger
	dev     verbs.Device
	lanes   []*lane
	ports   []*port
	querier *lane // queries ports
	asker   *lane // makes the other calls that may hang
	asks    *session.Asker
	pending bool // events have come since the last query
	why     *status.End

	snapshots int64 // when snapshots are taken
}

// port is the state of a port that the lanes share.
type port struct {
	session.ProbedPort
	gids    []verbs.GID
	hasGIDs bool // gids has been read
}

func newSession(k *keeper, led *ledger.Ledger) *openDevice {
	return &openDevice{k: k, line: &k.h.line, led: led, snapshots: never}
}

func (s *openDevice) has(l *lane) bool { return slices.Contains(s.lanes, l) }

// run watches the device until it is gone, its worker dies, or it cannot be
// opened. It returns false at the end of the history.
func (s *openDevice) run() (status.End, bool) {
	dev, err := s.k.h.opener.Open(s.k.device, s.led)
	if err != nil {
		return session.EndedBy(err), true
	}
	s.dev = dev
	s.asks = s.newAsker()
	if err := s.begin(); err != nil {
		return session.EndedBy(err), true
	}
	ok := s.await()
	s.stop() // after this, no lane counts in the ledger
	if !ok {
		return status.End{}, false
	}
	if s.why.Reason == status.ReasonRemoved {
		if err := s.close(); err != nil {
			s.why = new(session.EndedBy(err))
		}
	}
	return *s.why, true
}

// begin reports the device and its ports, and starts the lanes.
func (s *openDevice) begin() error {
	attr := s.dev.Attr()
	s.k.opened()
	s.k.h.deliver(s.k, verbs.Item{Opened: &attr})
	for n := range attr.Ports {
		s.ports = append(s.ports, &port{ProbedPort: session.ProbedPort{Number: n + 1, Probers: 1}})
	}
	if err := s.query(); err != nil {
		return err
	}
	s.add(s.line.start(s.line.now, s.read))
	s.querier = s.line.start(s.line.now, s.watchPorts)
	s.add(s.querier)
	s.asker = s.line.start(s.line.now, s.ask)
	s.add(s.asker)
	if s.k.h.of.Applications && !s.k.h.of.EventsAlone {
		s.add(s.line.start(s.line.now, s.watchObjects))
	}
	for i, p := range s.ports {
		offset := int64(s.k.h.cfg.ProbeInterval) * int64(i%16) / 16
		s.startProber(p, s.line.now+offset)
	}
	return nil
}

// watchObjects reports who holds the objects of the device.
func (s *openDevice) watchObjects() {
	kinds := []verbs.ObjectKind{verbs.ObjectContext, verbs.ObjectPD, verbs.ObjectCQ, verbs.ObjectSRQ, verbs.ObjectQP}
	const each = int(verbs.QueuePairsInterval / verbs.ObjectsInterval)
	for n := 0; ; n++ {
		asked := kinds
		if n%each != 0 {
			asked = kinds[:len(kinds)-1]
		}
		if objects, err := s.dev.ListObjects(asked...); err == nil {
			s.k.h.deliver(s.k, verbs.Item{Objects: objects})
		}
		if !s.line.wait(s.line.now + int64(verbs.ObjectsInterval)) {
			return
		}
	}
}

func (s *openDevice) add(l *lane) { s.lanes = append(s.lanes, l) }

// await waits for the end of the session. It returns false at the end of the
// history.
func (s *openDevice) await() bool {
	for s.why == nil {
		at, ever := s.k.h.world.Removed(s.k.device, s.line.now)
		if !ever {
			at = never
		}
		if ever && at <= s.line.now {
			s.why = &status.End{Reason: status.ReasonRemoved, Message: s.k.device + " was removed"}
			break
		}
		if !s.line.wait(at) {
			return false
		}
		if s.why == nil && ever && s.line.now >= at {
			s.why = &status.End{Reason: status.ReasonRemoved, Message: s.k.device + " was removed"}
		}
	}
	return true
}

// finish ends the session from one of its lanes.
func (s *openDevice) finish(why status.End) {
	if s.why == nil {
		s.why = &why
		s.line.rouse(s.k.lane, s.line.now)
	}
}

// killStuck ends a worker that is still in the same call.
func (s *openDevice) killStuck() {
	var snap ledger.Contents
	if s.why != nil {
		return
	}
	s.led.CopyTo(&snap)
	if busy := snap.LongestCall(nil); busy.Call != ledger.CallNone && s.line.now-busy.Since >= int64(killing) {
		s.finish(status.End{Reason: status.ReasonStuck, Message: "stuck in " + busy.Call.String()})
	}
}

// stop ends the lanes, but not the one that calls it.
func (s *openDevice) stop() {
	for _, l := range s.lanes {
		if l != s.line.current {
			s.line.end(l)
		}
	}
}

// close closes the device, in the keeper's lane.
func (s *openDevice) close() error {
	s.k.lane.limit = int64(closing)
	defer func() { s.k.lane.limit = 0 }()
	return s.dev.Close(closing)
}

// release frees the resources of a dead worker, as the kernel does. Nothing reads
// the ledger any more.
func (s *openDevice) release() {
	if s.dev == nil {
		return
	}
	s.k.lane.limit = 1
	defer func() { s.k.lane.limit = 0 }()
	_ = s.dev.Close(closing) // it may be closed
}

// read reads and delivers every asynchronous event.
func (s *openDevice) read() {
	runs := make([]verbs.Run, 64)
	for {
		n, err := s.dev.ReadEvents(runs, -1)
		if err != nil {
			return
		}
		for _, r := range runs[:n] {
			s.asks.HandleRun(&r)
			for _, p := range s.ports {
				if p.Number == r.Port && session.AffectsProbes(r.Type) {
					p.Seen++
				}
			}
		}
		s.k.collect()
		s.pending = true
		s.line.rouse(s.querier, s.line.now)
	}
}

// watchPorts queries ports after events, again when these have settled, and at
// an interval.
func (s *openDevice) watchPorts() {
	tick, again := s.line.now+int64(stateInterval), int64(never)
	for s.line.wait(min(tick, again)) {
		if s.query() != nil {
			return
		}
		now := s.line.now
		for tick <= now {
			tick += int64(stateInterval)
		}
		if again <= now {
			again = never
			for _, p := range s.ports {
				p.Settled++
			}
		}
		if s.pending {
			s.pending, again = false, now+int64(settled)
		}
	}
}

// query queries every port and reports it, with its GID table if that has changed. The only errors are that the device is
// gone or closed, which end the session.
func (s *openDevice) query() error {
	for _, p := range s.ports {
		r, err := s.asks.QueryPort(p.Number)
		if errors.Is(err, verbs.ErrRefused) {
			continue // it was not asked
		}
		if errors.Is(err, verbs.ErrNoDevice) || errors.Is(err, verbs.ErrClosed) {
			return err
		}
		if err != nil { // a failed query has no information about the port
			s.asks.ReportQuery(r, err)
			continue
		}
		if (p.State == verbs.PortActive) != (r.Attr.State == verbs.PortActive) {
			p.Seen++
		}
		p.Layer, p.State = r.Attr.LinkLayer, r.Attr.State
		s.asks.ReportQuery(r, err)
		if err := s.readGIDs(p); err != nil {
			return err
		}
	}
	return nil
}

// readGIDs reports the GID table of a port if it differs from the one before.
func (s *openDevice) readGIDs(p *port) error {
	t, err := s.dev.ReadGIDs(p.Number)
	if err != nil {
		return err
	}
	if !p.hasGIDs || !slices.Equal(t.Entries, p.gids) {
		p.gids, p.hasGIDs = slices.Clone(t.Entries), true
		s.k.h.deliver(s.k, verbs.Item{GIDs: &t})
	}
	return nil
}
