package session

import (
	"errors"
	"sync/atomic"
	"time"

	"rdma_events/internal/device/portstate"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

// Clock is the clock of an Asker. Its methods are called concurrently.
type Clock interface {
	// Now returns the time of a clock that is never set; only differences of times matter.
	Now() time.Time
	// Monotonic reads CLOCK_MONOTONIC, in ns.
	Monotonic() int64
	// AfterFunc calls f in another goroutine after d. stop prevents the call, and reports
	// whether it was in time.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// AskerConfig is the configuration of an Asker. All fields are required, except that Options may be zero and WriteCommand nil.
type AskerConfig struct {
	Device  verbs.Device
	Options verbs.Options // the intervals, and Ethtool
	Clock   Clock
	Send    func(verbs.Item) bool // is called with each result, must not block, and reports whether the host will get it
	// WriteCommand is called with a command that the device answered in time, like the previous one. It returns false if it
	// has no space for the command; Send then gets it. It must not block. nil: Send gets all commands.
	WriteCommand func(*verbs.Command) bool
	// OnStuck is called when a call has lasted for CommandStuck. It must not block.
	OnStuck func()
	// OnSnapshotDue is called when TakeSnapshots has something to do. It must not block.
	OnSnapshotDue func()
	// OnRTNLFree is called when a call under the kernel's RTNL lock has ended (HoldsRTNL). It
	// must not block.
	OnRTNLFree func()
}

// Asker makes the calls to an open device that may hang, because its firmware does not answer or
// because another process holds the kernel's RTNL lock: port queries, other commands, and
// snapshots. RunCommands and TakeSnapshots must be called from one goroutine, QueryPort and
// ReportQuery from one goroutine, which may be another. The other methods may be called
// concurrently.
type Asker struct {
	AskerConfig
	commands verbs.CommandSet
	refusals *verbs.Refusals
	ports    []*askedPort
	slow     atomic.Int32              // number of current calls that have lasted longer than verbs.AnswerLimit
	rtnl     atomic.Bool               // a call holds the RTNL lock
	fatal    atomic.Pointer[time.Time] // time of the last device_fatal; nil: none
}

type askedPort struct {
	number   int
	layer    atomic.Int32                   // verbs.LinkLayer by the last successful query
	events   atomic.Uint64                  // counts the runs of events after which the host needs another reading, see countStateEvent
	reported reportedState                  // used by ReportQuery alone
	good     [verbs.CommandQueryQP + 1]bool // by call: the device answered the last call in time
	request  snapshotRequest                // the pending request for a snapshot
	limiter  snapshotLimiter
	// quality is the time when the quality of the link was last read; zero: never.
	quality time.Time
	// countsBlocks reports whether the last hourly reading had counts of the forward error correction.
	countsBlocks bool
}

// reportedState is the state of a port as the host knows it from the readings sent so far.
type reportedState struct {
	known  bool
	answer verbs.Reading // the first reading with the current answer; only Attr and Refused are used
	events uint64        // askedPort.events when answer was read
	at     int64         // time of the last confirmation, CLOCK_MONOTONIC ns
	times  int           // number of confirmations
}

// confirmations is the number of readings that have to confirm an answer, each portstate.Patience after the last, before further
// readings with the same answer tell the host nothing. Two are needed because the driver's counter of lost links may be ahead of
// the events, and its lead may have grown between two readings: the first confirmation settles the older part of the lead, the
// second the rest.
const confirmations = 2

// countStateEvent counts an event that names a state of the port or concerns the whole device. The host judges the port by the
// event and the next readings, so these are sent again. Other events do not invalidate the last answer.
func (p *askedPort) countStateEvent(t verbs.EventType) {
	switch t {
	case verbs.EventPortErr, verbs.EventPortActive, verbs.EventDeviceFatal:
		p.events.Add(1)
	}
}

// isRepeated reports whether a reading tells the host nothing new: its answer has been confirmed, and there was no state event
// since. A slow reading always tells something: the device has not answered for a while.
func (p *askedPort) isRepeated(r *verbs.Reading) bool {
	events := p.events.Load()
	same := p.reported.known && p.reported.events == events && p.reported.answer.Attr == r.Attr && p.reported.answer.Refused == r.Refused
	if !same || r.Err != "" || r.RateOnly || r.Took > int64(verbs.AnswerLimit) {
		p.reported = reportedState{known: r.Err == "" && !r.RateOnly, answer: *r, events: events, at: r.Mono}
		return false
	}
	if p.reported.times < confirmations && r.Mono-p.reported.at >= int64(portstate.Patience) {
		p.reported.at, p.reported.times = r.Mono, p.reported.times+1
		return false
	}
	return p.reported.times == confirmations
}

// hostPause is the delay of a timer from which on the host counts as paused. How long a call lasted
// then says nothing about the device.
const hostPause = time.Second

// NewAsker returns an Asker for the watched ports of an open device.
func NewAsker(c AskerConfig) *Asker {
	begin := c.Clock.Now()
	a := &Asker{AskerConfig: c, refusals: verbs.NewRefusals(func() int64 { return int64(c.Clock.Now().Sub(begin)) })}
	if u, ok := c.Device.(verbs.ReadLimiter); ok {
		u.LimitReads(a.refusals)
	}
	if c.Options.CommandInterval > 0 {
		a.commands = c.Device.Commands()
	}
	attr := c.Device.Attr()
	for _, n := range attr.WatchedPorts(c.Options.Ports) {
		a.ports = append(a.ports, &askedPort{number: n})
	}
	return a
}

func (a *Asker) port(number int) *askedPort {
	for _, p := range a.ports {
		if p.number == number {
			return p
		}
	}
	return nil
}

// Answers reports whether the device answers in time: no current call has lasted longer than
// verbs.AnswerLimit.
func (a *Asker) Answers() bool { return a.slow.Load() == 0 }

// HoldsRTNL reports whether a current call of this Asker holds the kernel's RTNL lock. Port queries
// are then put off: many drivers take the lock for a query as well (ib_get_eth_speed in
// drivers/infiniband/core/verbs.c), and Close waits for a query.
func (a *Asker) HoldsRTNL() bool { return a.rtnl.Load() }

// callUnderRTNL makes a call during which the kernel holds its RTNL lock.
func (a *Asker) callUnderRTNL(call func()) {
	a.rtnl.Store(true)
	defer a.OnRTNLFree()
	defer a.rtnl.Store(false)
	call()
}

// QueryPort queries a port. It returns a Reading also if the query fails; the caller passes it to
// ReportQuery. If the firmware has refused queries and must not be asked now, QueryPort returns
// verbs.ErrRefused and no Reading.
func (a *Asker) QueryPort(number int) (r *verbs.Reading, err error) {
	if !a.refusals.Allow(number, verbs.ReadQueryPort) {
		return nil, verbs.ErrRefused
	}
	r = &verbs.Reading{Port: number}
	if a.Options.CommandInterval > 0 {
		due := a.Clock.Monotonic() + int64(a.Options.CommandStuck)
		stop := a.Clock.AfterFunc(a.Options.CommandStuck, func() {
			if now := a.Clock.Monotonic(); now-due < int64(hostPause) {
				a.RequestSnapshot(number, verbs.TriggerCommand, now)
			}
		})
		defer stop()
	}
	r.Mono, r.Took = a.timeCall(func() { r.Attr, err = a.Device.QueryPort(number) })
	a.refusals.Record(number, verbs.ReadQueryPort, err)
	r.Refused, r.Restricted = a.refusedReads(number), verbs.IsRestriction(err)
	if err != nil {
		r.Err = err.Error()
	} else if p := a.port(number); p != nil {
		p.layer.Store(int32(r.Attr.LinkLayer))
	}
	return r, err
}

// refusedReads lists the reads of a port that the firmware refuses; "" if none. Counters are included only if reading them is a
// firmware command: otherwise it is normal that they cannot be read.
func (a *Asker) refusedReads(port int) string {
	set := a.Device.Commands()
	reads := []verbs.Read{verbs.ReadQueryPort}
	if set.Has(verbs.CommandQueryPort) { // reading link_downed is then a command, too
		reads = append(reads, verbs.ReadCounters)
	}
	if set.Has(verbs.CommandHWCounters) {
		reads = append(reads, verbs.ReadHWCounters)
	}
	return a.refusals.Text(port, reads...)
}

// readForCall returns the Read that a call makes.
func readForCall(c verbs.CommandCall) verbs.Read {
	switch c {
	case verbs.CommandHWCounters:
		return verbs.ReadHWCounters
	case verbs.CommandQueryQP:
		return verbs.ReadQueryQP
	}
	return verbs.ReadQueryPort
}

// hostClock implements Clock by the host's clocks.
type hostClock struct{}

func (hostClock) Now() time.Time { return time.Now() }

func (hostClock) Monotonic() int64 { return clock.Monotonic() }

func (hostClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(d, f).Stop
}

// CommandInterval returns the interval at which RunCommands must be called; 0 for never. The first
// call is due after one interval, so that restarted workers do not ask more often.
func (a *Asker) CommandInterval() time.Duration {
	if !a.commands.Has(verbs.CommandHWCounters) && !a.commands.Has(verbs.CommandQueryQP) {
		return 0
	}
	return a.Options.CommandInterval
}

// RunCommands makes one call for each port. The only error is ErrClosed.
func (a *Asker) RunCommands() error {
	for _, p := range a.ports {
		if err := a.runCommand(p.number); err != nil {
			return err
		}
	}
	return nil
}

// runCommand makes one call for a port and sends the result. It reads a counter, which needs no
// object of the plugin and also works on a port that is down; failing that, it queries the queue
// pair of a probe. If the port has neither, it makes no call. The only error is ErrClosed: the port
// queries find out whether the device was removed.
func (a *Asker) runCommand(port int) error {
	for _, c := range []struct {
		call verbs.CommandCall
		make func(port int) error
	}{{verbs.CommandHWCounters, a.Device.ReadCounter}, {verbs.CommandQueryQP, a.Device.QueryQP}} {
		if !a.commands.Has(c.call) || !a.refusals.Allow(port, readForCall(c.call)) {
			continue
		}
		var err error
		mono, took := a.timeCall(func() { err = c.make(port) })
		a.refusals.Record(port, readForCall(c.call), err)
		switch {
		case errors.Is(err, verbs.ErrClosed):
			return err
		case !errors.Is(err, verbs.ErrUnsupported):
			a.reportCommand(&verbs.Command{Call: c.call, Port: port, Mono: mono, Took: took, Status: verbs.CommandStatus(err)})
			return nil
		}
	}
	return nil
}

// ReportQuery sends the Reading of a port query, unless it tells the host nothing new. If the query is a firmware command, it also
// reports it as a Command. With any driver the Reading shows that a slow query was answered at last.
func (a *Asker) ReportQuery(r *verbs.Reading, err error) {
	if a.commands.Has(verbs.CommandQueryPort) {
		a.reportCommand(&verbs.Command{
			Call: verbs.CommandQueryPort, Port: r.Port, Mono: r.Mono, Took: r.Took, Status: verbs.CommandStatus(err),
		})
	}
	p := a.port(r.Port)
	if p != nil && p.isRepeated(r) && !a.Options.EveryReading {
		return
	}
	if !a.Send(verbs.Item{Reading: r}) && p != nil {
		p.reported = reportedState{} // the next reading is sent even if it is equal
	}
}

// reportCommand passes a command to WriteCommand if the device answered it and the previous one in time, and sends it otherwise.
// The first command after a failure is therefore sent, so that the host learns at once that the device answers again.
func (a *Asker) reportCommand(c *verbs.Command) {
	good := c.Status == "" && c.Took <= int64(verbs.AnswerLimit)
	urgent := true
	if p := a.port(c.Port); p != nil {
		urgent = !good || !p.good[c.Call]
		p.good[c.Call] = good
	}
	if urgent || a.WriteCommand == nil || !a.WriteCommand(c) {
		a.Send(verbs.Item{Command: c})
	}
}

// timeCall makes a call that the firmware may not answer, and measures it. After CommandStuck it
// calls OnStuck, so that the host gets a batch and looks at the call in the ledger. mono is
// CLOCK_MONOTONIC before the call; took is its duration. Both are in ns.
func (a *Asker) timeCall(call func()) (mono, took int64) {
	counted := make(chan struct{})
	stop := a.Clock.AfterFunc(verbs.AnswerLimit, func() {
		a.slow.Add(1)
		close(counted)
	})
	defer func() {
		if !stop() {
			<-counted // otherwise the count would be one too low for a moment, and hide another slow call
			a.slow.Add(-1)
		}
	}()
	if a.Options.CommandInterval > 0 {
		stop := a.Clock.AfterFunc(a.Options.CommandStuck, a.OnStuck)
		defer stop()
	}
	mono = a.Clock.Monotonic()
	call()
	return mono, a.Clock.Monotonic() - mono
}
