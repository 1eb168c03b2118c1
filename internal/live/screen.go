package live

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"rdma_events/internal/measure"
	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
)

const (
	// hold is how long a record waits for others that happened before it: workers send what they
	// read in an order of their own.
	hold = 100 * time.Millisecond
	// interval is how often probes are shown.
	interval = time.Second
	// maxQueue limits the records that wait for a reader that does not read.
	maxQueue = 100_000
)

// Config is the configuration of a Screen.
type Config struct {
	Out     io.Writer
	JSON    bool // one object a line
	Colours bool // Out is a terminal: colours, and probes in place
	ASCII   bool // without block characters
	Probes  bool
	// Width returns how many columns the terminal has; nil: no limit.
	Width func() int
	Now   func() time.Time
}

// Screen shows points. Emit and Log may be called concurrently and do not block.
type Screen struct {
	cfg  Config
	wake chan struct{}

	mu      sync.Mutex
	queue   []record
	dropped int
	devices map[string]shown
	states  map[portKey]string
	stuck   map[measure.Key]bool // commands

	// Used only by the goroutine of Run.
	held    []record // taken from queue, and not shown yet
	block   block
	current map[place]verbs.Method
}

type portKey struct {
	device string
	port   int
}

// shown is the state of a device that was shown last.
type shown struct {
	open   bool
	reason status.Reason
}

// New returns a Screen, which shows nothing before Run.
func New(c Config) *Screen {
	return &Screen{
		cfg: c, wake: make(chan struct{}, 1), devices: make(map[string]shown), states: make(map[portKey]string),
		stuck: make(map[measure.Key]bool),
		block: block{width: c.Width}, current: make(map[place]verbs.Method),
	}
}

// Run shows the points of Emit until ctx is done, and then those that are left. It calls
// gather every second, as a monitor needs it; the points that gather returns include the
// measurements of probes. Run returns the error of a failed write, else nil.
func (s *Screen) Run(ctx context.Context, gather func(now time.Time) []measure.Point) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return s.show(s.take(time.Time{}), nil)
		case <-s.wake:
			if due == nil {
				due = time.After(hold)
			}
			continue
		case <-due:
			due = nil
			if err := s.show(s.take(s.cfg.Now().Add(-hold)), nil); err != nil {
				return err
			}
		case <-tick.C:
			now := s.cfg.Now()
			points := gather(now)
			if err := s.show(s.take(now.Add(-hold)), s.probes(points, now)); err != nil {
				return err
			}
		}
		if due == nil && len(s.held) > 0 {
			due = time.After(hold)
		}
	}
}

// take returns the records that were queued until a time, all if it is zero, and those that happened before them, in the
// order in which they happened. It keeps the others in held.
func (s *Screen) take(until time.Time) []record {
	queue, dropped := s.unqueue()
	s.held = append(s.held, queue...)
	slices.SortStableFunc(s.held, func(a, b record) int { return a.Time.Compare(b.Time) })
	n := len(s.held)
	for !until.IsZero() && n > 0 && s.held[n-1].queued.After(until) {
		n--
	}
	due := s.held[:n:n]
	s.held = slices.Clone(s.held[n:])
	if dropped > 0 {
		due = append(due, record{
			Time: s.cfg.Now(), Kind: kindLog, Level: "warning",
			Text: fmt.Sprintf("%d lines are dropped, because nobody read them in time", dropped),
		})
	}
	return due
}

// unqueue empties the queue.
func (s *Screen) unqueue() (queue []record, dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue, dropped = s.queue, s.dropped
	s.queue, s.dropped = nil, 0
	return queue, dropped
}

// add queues a record. The caller holds s.mu.
func (s *Screen) add(r record) {
	if len(s.queue) >= maxQueue {
		s.dropped++
		return
	}
	r.queued = s.cfg.Now()
	s.queue = append(s.queue, r)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Emit shows an event, a change of a port, of its GID table or of an attribute, a command
// that is stuck or was, a port that became known, or a device. It does not keep the point.
func (s *Screen) Emit(p measure.Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := p.(type) {
	case *measure.Event:
		s.event(p)
	case *measure.Change:
		s.change(p)
	case *measure.GIDChange:
		s.gid(p)
	case *measure.AttrChange:
		s.add(record{
			Time: p.At, Kind: kindAttr, Device: p.Device, Port: p.Port, Attr: &attr{p.Attr, p.From, p.To},
		})
	case *measure.Command:
		s.command(p)
	case *measure.Port:
		s.port(p)
	case *measure.Device:
		s.device(p)
	}
}

func (s *Screen) event(p *measure.Event) {
	state := s.states[portKey{p.Device, p.Port}]
	s.add(record{
		Time: p.At, Kind: kindEvent, Device: p.Device, Port: p.Port,
		Event: p.Type.String(), Count: p.Count, StateFrom: state, StateTo: state,
	})
}

func (s *Screen) change(p *measure.Change) {
	s.states[portKey{p.Device, p.Port}] = p.To.String()
	if n := len(s.queue); n > 0 && s.queue[n-1].merge(p) {
		return
	}
	r := record{Time: p.At, Kind: kindState, Device: p.Device, Port: p.Port}
	r.change(p)
	s.add(r)
}

func (s *Screen) gid(p *measure.GIDChange) {
	g := &gid{
		GID: p.GID.String(), Type: p.GID.Type.String(), NetDev: p.GID.NetDev, Action: string(p.Action),
		AwayNS: p.AwayNS, OwnProbe: p.Probed,
	}
	if from := p.From; from >= 0 {
		g.From = &from
	}
	if to := p.To; to >= 0 {
		g.To = &to
	}
	s.add(record{Time: p.At, Kind: kindGID, Device: p.Device, Port: p.Port, GID: g})
}

// command shows that a command is stuck, or is no longer.
func (s *Screen) command(p *measure.Command) {
	if s.stuck[p.Key()] == p.Stuck {
		return
	}
	s.stuck[p.Key()] = p.Stuck
	s.add(record{
		Time: p.At, Kind: kindCommand, Device: p.Device, Port: p.Port,
		Command: &command{p.Call.String(), p.Stuck, p.Status, p.BusyNS, p.Calls, p.Errors},
	})
}

// port shows a port that became known. After that only its changes are shown.
func (s *Screen) port(v *measure.Port) {
	key := portKey{v.Device, v.Port}
	if _, seen := s.states[key]; seen || !v.HasState || !v.Known {
		return
	}
	s.states[key] = v.State.String()
	s.add(record{
		Time: v.At, Kind: kindPort, Device: v.Device, Port: v.Port, StateTo: v.State.String(),
		Link: &link{v.Attr.RateGbps, v.Attr.Width, v.Attr.LinkLayer.String(), v.Attr.NetDev},
	})
}

func (s *Screen) device(v *measure.Device) {
	last := s.devices[v.Device]
	s.devices[v.Device] = shown{v.Open, v.Reason}
	r := record{Time: v.At, Kind: kindDevice, Device: v.Device, Reason: string(v.Reason)}
	switch {
	case v.Open && !last.open:
		r.Opened = &opened{v.Attr.Driver, v.Attr.Firmware, v.Attr.Ports, v.Attr.EventsSupported}
	case v.Reason == status.ReasonOK || v.Reason == status.ReasonStarting || v.Reason == last.reason:
		return
	}
	s.add(r)
}
