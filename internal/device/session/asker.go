package session

import (
	"errors"
	"sync/atomic"
	"time"

	"rdma_events/internal/device/portstate"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

// Clock is the time that an Asker goes by. Its methods are called concurrently.
type Clock interface {
	// Now returns a time whose differences are those of a clock that is never set.
	Now() time.Time
	// Monotonic reads CLOCK_MONOTONIC, in ns.
	Monotonic() int64
	// AfterFunc calls f, in another goroutine, after d. stop prevents that, and reports
	// whether it did.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// AskerConfig is the configuration of an Asker. All is set, except that Options may be zero.
type AskerConfig struct {
	Device  verbs.Device
	Options verbs.Options // the intervals, and Ethtool
	Clock   Clock
	Send    func(verbs.Item) // gets what was found, and must not block
	// List gets commands that the device has answered like the one before, and reports whether it had space for them. It must
	// not block. nil: Send gets them too.
	List func(*verbs.Command) bool
	// Late is called when a call has lasted for CommandStuck. It must not block.
	Late func()
	// Wake is called when TakeSnapshots has something to do. It must not block.
	Wake func()
	// Free is called when a call under the kernel's RTNL lock has ended (HoldsRTNL). It must not
	// block.
	Free func()
}

// Asker makes the calls of an open device that may hang for as long as its firmware does, or
// for as long as another process holds the kernel's RTNL lock: queries of its ports, other
// commands, and the snapshots. AskAll and TakeSnapshots are for one goroutine, QueryPort and
// ReportQuery for another one, and the other methods may be called concurrently.
type Asker struct {
	AskerConfig
	commands verbs.CommandSet
	refusals *verbs.Refusals
	ports    []*askedPort
	slow     atomic.Int32              // calls under way that have lasted longer than verbs.AnswerLimit
	rtnl     atomic.Bool               // a call under the RTNL lock is under way
	fatal    atomic.Pointer[time.Time] // when device_fatal was read last; nil: never
}

type askedPort struct {
	number int
	layer  atomic.Int32                   // a verbs.LinkLayer, from the last query that succeeded
	events atomic.Uint64                  // counts the runs of events after which the host needs another reading, see noteEvent
	told   told                           // used by ReportQuery alone
	good   [verbs.CommandQueryQP + 1]bool // by call: the device has answered the last one in time
	kick   kick                           // why a snapshot is to be taken
	pace   pace
	// quality is when the quality of the link was read last; zero: never.
	quality time.Time
	// countsBlocks reports whether the last hourly reading had counts of the forward error correction.
	countsBlocks bool
}

// told is what the host knows of a port by its readings.
type told struct {
	known  bool
	answer verbs.Reading // the first of those with the same answer; only Attr and Refused are used
	events uint64        // the port's count when it came
	at     int64         // when the last one came that confirms it, CLOCK_MONOTONIC ns
	times  int           // how often it was confirmed
}

// confirmations is how often an answer has to be confirmed, each time portstate.Patience after the last, until another reading
// tells the host nothing. Twice, since the lead of the driver's counter of lost links may have grown between two readings: the
// first shows what has lasted of it, and the second the rest.
const confirmations = 2

// noteEvent makes the next readings news after an event that names a state of the port, and after one of the whole device. The
// host judges the state by both. Any other event leaves the answer as good as it was.
func (p *askedPort) noteEvent(t verbs.EventType) {
	switch t {
	case verbs.EventPortErr, verbs.EventPortActive, verbs.EventDeviceFatal:
		p.events.Add(1)
	}
}

// isRepeated reports whether a reading tells the host nothing: its answer was confirmed, and noteEvent was told of no event since
// that came. A slow one tells that the device has not answered for a while.
func (p *askedPort) isRepeated(r *verbs.Reading) bool {
	events := p.events.Load()
	same := p.told.known && p.told.events == events && p.told.answer.Attr == r.Attr && p.told.answer.Refused == r.Refused
	if !same || r.Err != "" || r.RateOnly || r.Took > int64(verbs.AnswerLimit) {
		p.told = told{known: r.Err == "" && !r.RateOnly, answer: *r, events: events, at: r.Mono}
		return false
	}
	if p.told.times < confirmations && r.Mono-p.told.at >= int64(portstate.Patience) {
		p.told.at, p.told.times = r.Mono, p.told.times+1
		return false
	}
	return p.told.times == confirmations
}

// paused is how late a timer has to go off until the host counts as paused: what lasted for
// so long then says nothing about the device.
const paused = time.Second

// NewAsker returns an Asker for the ports of an open device that Options has.
func NewAsker(c AskerConfig) *Asker {
	begin := c.Clock.Now()
	a := &Asker{AskerConfig: c, refusals: verbs.NewRefusals(func() int64 { return int64(c.Clock.Now().Sub(begin)) })}
	if u, ok := c.Device.(verbs.ReadLimiter); ok {
		u.LimitReads(a.refusals)
	}
	if c.Options.CommandInterval > 0 {
		a.commands = c.Device.Commands()
	}
	for _, n := range verbs.PortNumbers(c.Device.Attr().Ports, c.Options.Ports) {
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

// Answers reports whether no call is under way that has lasted longer than verbs.AnswerLimit.
func (a *Asker) Answers() bool { return a.slow.Load() == 0 }

// HoldsRTNL reports whether a call is under way that holds the kernel's RTNL lock. Many drivers
// take the lock for a query of a port (ib_get_eth_speed in drivers/infiniband/core/verbs.c), and
// Close waits for a query.
func (a *Asker) HoldsRTNL() bool { return a.rtnl.Load() }

// underRTNL makes a call that holds the RTNL lock.
func (a *Asker) underRTNL(call func()) {
	a.rtnl.Store(true)
	defer a.Free()
	defer a.rtnl.Store(false)
	call()
}

// QueryPort queries a port. The Reading also has what a failed query has, and is to be passed
// to ReportQuery. The error is verbs.ErrRefused, and there is no Reading, if the firmware has refused queries and is not
// asked now.
func (a *Asker) QueryPort(number int) (r *verbs.Reading, err error) {
	if !a.refusals.Allow(number, verbs.ReadQueryPort) {
		return nil, verbs.ErrRefused
	}
	r = &verbs.Reading{Port: number}
	if a.Options.CommandInterval > 0 {
		due := a.Clock.Monotonic() + int64(a.Options.CommandStuck)
		stop := a.Clock.AfterFunc(a.Options.CommandStuck, func() {
			if now := a.Clock.Monotonic(); now-due < int64(paused) {
				a.Kick(number, verbs.TriggerCommand, now)
			}
		})
		defer stop()
	}
	r.Mono, r.Took = a.timed(func() { r.Attr, err = a.Device.QueryPort(number) })
	a.refusals.Record(number, verbs.ReadQueryPort, err)
	r.Refused = a.refused(number)
	if err != nil {
		r.Err = err.Error()
	} else if p := a.port(number); p != nil {
		p.layer.Store(int32(r.Attr.LinkLayer))
	}
	return r, err
}

// refused returns which reads of a port the firmware refuses, "" if none. That counters cannot be read is normal
// unless reading them asks the firmware.
func (a *Asker) refused(port int) string {
	set := a.Device.Commands()
	reads := []verbs.Read{verbs.ReadQueryPort}
	if set.Has(verbs.CommandQueryPort) { // link_downed too is a command
		reads = append(reads, verbs.ReadCounters)
	}
	if set.Has(verbs.CommandHWCounters) {
		reads = append(reads, verbs.ReadHWCounters)
	}
	return a.refusals.Text(port, reads...)
}

// readOf returns the Read that a call makes.
func readOf(c verbs.CommandCall) verbs.Read {
	switch c {
	case verbs.CommandHWCounters:
		return verbs.ReadHWCounters
	case verbs.CommandQueryQP:
		return verbs.ReadQueryQP
	}
	return verbs.ReadQueryPort
}

// hostClock is the Clock of the host.
type hostClock struct{}

func (hostClock) Now() time.Time { return time.Now() }

func (hostClock) Monotonic() int64 { return clock.Monotonic() }

func (hostClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(d, f).Stop
}

// CommandInterval is how often AskAll is to be called, 0 for never. The first call is due
// after an interval, so that workers that are restarted ask no more often.
func (a *Asker) CommandInterval() time.Duration {
	if !a.commands.Has(verbs.CommandHWCounters) && !a.commands.Has(verbs.CommandQueryQP) {
		return 0
	}
	return a.Options.CommandInterval
}

// AskAll makes one call for each port. The only error is ErrClosed.
func (a *Asker) AskAll() error {
	for _, p := range a.ports {
		if err := a.askPort(p.number); err != nil {
			return err
		}
	}
	return nil
}

// askPort makes one call for a port and sends the result. It reads a counter, which takes no
// object of ours and also works on a port that is down, or else queries the queue pair of a
// probe. Without both it makes none. The only error is ErrClosed: whether a device is gone
// is for the queries of its ports to say.
func (a *Asker) askPort(port int) error {
	for _, c := range []struct {
		call verbs.CommandCall
		make func(port int) error
	}{{verbs.CommandHWCounters, a.Device.ReadCounter}, {verbs.CommandQueryQP, a.Device.QueryQP}} {
		if !a.commands.Has(c.call) || !a.refusals.Allow(port, readOf(c.call)) {
			continue
		}
		var err error
		mono, took := a.timed(func() { err = c.make(port) })
		a.refusals.Record(port, readOf(c.call), err)
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

// ReportQuery sends what came of a query of a port unless that tells the host nothing, also as a Command if it is one. That a
// query was answered after all is in its Reading, with any driver.
func (a *Asker) ReportQuery(r *verbs.Reading, err error) {
	if a.commands.Has(verbs.CommandQueryPort) {
		a.reportCommand(&verbs.Command{
			Call: verbs.CommandQueryPort, Port: r.Port, Mono: r.Mono, Took: r.Took, Status: verbs.CommandStatus(err),
		})
	}
	if p := a.port(r.Port); p == nil || !p.isRepeated(r) || a.Options.EveryReading {
		a.Send(verbs.Item{Reading: r})
	}
}

// reportCommand lists a command that was answered as soon as the one before it, and sends any other one. The next one after a
// failure is sent too: the host hears at once that the device answers again.
func (a *Asker) reportCommand(c *verbs.Command) {
	good := c.Status == "" && c.Took <= int64(verbs.AnswerLimit)
	news := true
	if p := a.port(c.Port); p != nil {
		news = !good || !p.good[c.Call]
		p.good[c.Call] = good
	}
	if news || a.List == nil || !a.List(c) {
		a.Send(verbs.Item{Command: c})
	}
}

// timed makes a call that the firmware may not answer. When the call has lasted for
// CommandStuck, the host gets a batch and finds the call in the ledger. mono is
// CLOCK_MONOTONIC before the call, took its ns.
func (a *Asker) timed(call func()) (mono, took int64) {
	counted := make(chan struct{})
	stop := a.Clock.AfterFunc(verbs.AnswerLimit, func() {
		a.slow.Add(1)
		close(counted)
	})
	defer func() {
		if !stop() {
			<-counted // otherwise the count is one too low for a moment, and hides another call
			a.slow.Add(-1)
		}
	}()
	if a.Options.CommandInterval > 0 {
		stop := a.Clock.AfterFunc(a.Options.CommandStuck, a.Late)
		defer stop()
	}
	mono = a.Clock.Monotonic()
	call()
	return mono, a.Clock.Monotonic() - mono
}
