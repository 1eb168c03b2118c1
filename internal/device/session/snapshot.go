package session

import (
	"errors"
	"fmt"
	"time"

	"rdma_events/internal/device/verbs"
)

// The limits of a snapshot.
const (
	// snapshotTime is after what time no further part of a snapshot is begun.
	snapshotTime = 5 * time.Second
	// afterFatal is how long after device_fatal nothing is asked under the kernel's RTNL lock.
	afterFatal = 10 * time.Second
	// qualityInterval is how often the quality of a link that is up is read, which grows bad in hours and days. After a drop it is
	// read as well, but not sooner than qualityGap after the last time.
	qualityInterval = time.Hour
	qualityGap      = time.Minute
)

// taking is a snapshot that is being taken.
type taking struct {
	verbs.Snapshot
	a     *Asker
	ended <-chan struct{} // closed when the watch ends
	until time.Time
	// unanswered is why the device may not answer; "" if it has answered a command.
	unanswered string
	// closed is set once the device is closed.
	closed bool
	// quality is set if the quality of the link is to be read, and errorCorrection if that includes the counts of the forward error
	// correction.
	quality, errorCorrection bool
}

// takeSnapshot reads the parts of one snapshot, in the order of what they may hang in: nothing,
// the device's firmware, the kernel's RTNL lock. It sends what it has before each. The only
// error is ErrClosed.
func (a *Asker) takeSnapshot(ended <-chan struct{}, p *askedPort, base bool) error {
	why, at, merged := p.kick.take(base)
	if why == "" {
		return nil
	}
	t := taking{a: a, ended: ended, until: a.Clock.Now().Add(snapshotTime)}
	t.Port, t.Trigger, t.At, t.Merged, t.Mono = p.number, why, at, merged, a.Clock.Monotonic()
	if verbs.LinkLayer(p.layer.Load()) != verbs.LinkInfiniBand {
		t.readNetDev()
	}
	if why != verbs.TriggerBase {
		t.send()
	}
	if t.quality = t.concernsQuality(p); t.quality {
		// Where the driver does not count, each attempt may be a line of the kernel log: one an hour is enough.
		t.errorCorrection = why == verbs.TriggerBase || p.quality.IsZero() || p.countsBlocks
		p.quality = a.Clock.Now()
	}
	t.checkFirmware()
	t.readCounters()
	t.readSensors()
	if why != verbs.TriggerBase && t.asksEthtool() {
		t.send()
	}
	t.askEthtool()
	if t.errorCorrection && why == verbs.TriggerBase { // after a drop, a driver may have no counts until the link is back
		p.countsBlocks = len(t.Counters[verbs.CountersFEC]) > 0
	}
	t.Done = true
	t.send()
	if t.closed {
		return verbs.ErrClosed
	}
	return nil
}

// send sends what is read so far. A copy is sent, since the outbox keeps it.
func (t *taking) send() {
	t.Took = t.a.Clock.Monotonic() - t.Mono
	v := t.Clone()
	t.a.Send(verbs.Item{Snapshot: &v})
}

// leaveOut notes what is not known, and why.
func (t *taking) leaveOut(what, why string) { t.LeftOut = append(t.LeftOut, what+": "+why) }

// over reports whether no further part is begun, and notes that for one.
func (t *taking) over(what string) bool {
	select {
	case <-t.ended:
		t.leaveOut(what, "the watch ended")
		return true
	default:
	}
	if t.a.Clock.Now().After(t.until) {
		t.leaveOut(what, "the snapshot took longer than "+snapshotTime.String())
		return true
	}
	return t.closed
}

// failed reports whether a part could not be read, and notes it. What does not exist is not
// left out.
func (t *taking) failed(what string, err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, verbs.ErrClosed):
		t.closed = true
	case !errors.Is(err, verbs.ErrUnsupported):
		t.leaveOut(what, reasonOf(err))
	}
	return true
}

// reasonOf returns the text of an error without the device and the port, which a snapshot names.
func reasonOf(err error) string {
	var op *verbs.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return err.Error()
}

func (t *taking) readNetDev() {
	n, err := t.a.Device.ReadNetDev(t.Port)
	if !t.failed("network device", err) {
		t.NetDev = &n
	}
}

const notAnswering = "the device is not answering another command"

// checkFirmware finds out whether the device answers, unless the counters show it: with some
// drivers their reading is no command, or has effects if it fails.
func (t *taking) checkFirmware() {
	set := t.a.Device.Commands()
	switch {
	case !t.a.Answers():
		t.unanswered = notAnswering
	case set.Has(verbs.CommandQueryQP) && !set.Has(verbs.CommandHWCounters):
		if !t.a.refusals.Allow(t.Port, verbs.ReadQueryQP) {
			t.unanswered = verbs.ErrRefused.Error()
			return
		}
		var err error
		begin := t.a.Clock.Now()
		t.a.timed(func() { err = t.a.Device.QueryQP(t.Port) })
		t.a.refusals.Record(t.Port, verbs.ReadQueryQP, err)
		t.judge(t.a.Clock.Now().Sub(begin), err)
		if errors.Is(err, verbs.ErrUnsupported) {
			t.unanswered = "no probe has a queue pair, whose query would show that the device answers"
		}
	}
}

// judge notes whether the device has answered a command in time.
func (t *taking) judge(took time.Duration, err error) {
	switch {
	case errors.Is(err, verbs.ErrClosed):
		t.closed = true
	case err != nil:
		t.unanswered = "the device answered a command with: " + reasonOf(err)
	case took > verbs.AnswerLimit:
		t.unanswered = "the device took " + took.Round(time.Millisecond).String() + " to answer a command"
	default:
		t.Answered = true
	}
}

// readCounters reads the counters of the device. The first ones may be commands to it, and
// the others are not read if it was slow to answer.
func (t *taking) readCounters() {
	t.CountersAt = t.a.Clock.Monotonic()
	if t.unanswered != "" {
		t.leaveOut("counters", t.unanswered)
		return
	}
	if t.over("counters") {
		return
	}
	var values map[string]uint64
	var err error
	begin := t.a.Clock.Now()
	values, err = t.ask(verbs.CountersHardware)
	t.keep(verbs.CountersHardware, values, err)
	if t.a.Device.Commands().Has(verbs.CommandHWCounters) {
		t.judge(t.a.Clock.Now().Sub(begin), err)
	}
	for _, from := range []verbs.CounterSource{verbs.CountersPort, verbs.CountersPCI} {
		if t.unanswered != "" {
			t.leaveOut(string(from), t.unanswered)
			return
		}
		if t.over(string(from)) {
			return
		}
		values, err = t.ask(from)
		t.keep(from, values, err)
		if err != nil && !errors.Is(err, verbs.ErrUnsupported) {
			t.unanswered = "the device answered a command with: " + reasonOf(err) // each file may be one
		}
	}
}

// ask reads the counters of a source, unless the firmware refuses them.
func (t *taking) ask(from verbs.CounterSource) (values map[string]uint64, err error) {
	read, limited := map[verbs.CounterSource]verbs.Read{
		verbs.CountersHardware: verbs.ReadHWCounters, verbs.CountersPort: verbs.ReadCounters,
	}[from]
	if limited && !t.a.refusals.Allow(t.Port, read) {
		return nil, fmt.Errorf("%w: %w", verbs.ErrUnsupported, verbs.ErrRefused)
	}
	t.a.timed(func() { values, err = t.a.Device.ReadCounters(t.Port, from) })
	if limited {
		t.a.refusals.Record(t.Port, read, err)
	}
	return values, err
}

// keep adds the counters of a source, also those that were read before an error.
func (t *taking) keep(from verbs.CounterSource, values map[string]uint64, err error) {
	t.failed(string(from), err)
	if len(values) == 0 {
		return
	}
	if t.Counters == nil {
		t.Counters = verbs.Counters{}
	}
	t.Counters[from] = values
}

// asksLink reports whether the driver may have a reason why there is no link.
func (t *taking) asksLink() bool {
	n := t.NetDev
	return t.Trigger != verbs.TriggerBase && t.a.Options.Ethtool >= verbs.EthtoolLink &&
		n != nil && n.AdminUp && n.HasCarrier && !n.Carrier
}

func (t *taking) asksStatistics() bool {
	return t.a.Options.Ethtool >= verbs.EthtoolAll && t.NetDev != nil
}

// asksErrorCorrection reports whether the counts of the forward error correction are read. With InfiniBand the network device
// knows nothing of them.
func (t *taking) asksErrorCorrection() bool {
	return t.errorCorrection && t.a.Options.Ethtool >= verbs.EthtoolLink && t.NetDev != nil && !t.NetDev.Virtual
}

func (t *taking) asksEthtool() bool {
	return t.asksLink() || t.asksErrorCorrection() || t.asksStatistics()
}

// askEthtool asks what the kernel answers under its RTNL lock. The lock is one for the whole
// host, and a device whose firmware hangs would hold it for as long as its driver waits: 60 s
// with mlx5. So the device must have answered a command of this snapshot before.
func (t *taking) askEthtool() {
	for _, one := range []struct {
		what  string
		wants bool
		ask   func()
	}{
		{"ext_state", t.asksLink(), t.askLink},
		{string(verbs.CountersFEC), t.asksErrorCorrection(), t.readErrorCorrection},
		{"ethtool", t.asksStatistics(), t.readStatistics},
	} {
		if !one.wants {
			continue
		}
		if why := t.whyNotRTNL(); why != "" {
			t.leaveOut(one.what, why)
		} else if !t.over(one.what) {
			t.a.underRTNL(one.ask)
		}
	}
}

// whyNotRTNL returns why the RTNL lock is not to be taken, "" if it may be.
func (t *taking) whyNotRTNL() string {
	fatal := t.a.fatal.Load()
	switch {
	case t.unanswered != "":
		return t.unanswered
	case !t.a.Answers(): // since the device answered the first
		return notAnswering
	case fatal != nil && t.a.Clock.Now().Sub(*fatal) < afterFatal:
		return "device_fatal was less than " + afterFatal.String() + " ago"
	case t.a.Device.Commands()&verbs.NewCommandSet(verbs.CommandHWCounters, verbs.CommandQueryQP) == 0 && !t.NetDev.Virtual:
		return "the RDMA device has no command that shows whether the firmware of " + t.NetDev.Name + " answers"
	}
	return ""
}

func (t *taking) askLink() {
	t.LinkAt = t.a.Clock.Monotonic()
	l, err := t.a.Device.AskLink(t.Port)
	if !t.failed("ext_state", err) {
		t.Link = &l
	}
}

// concernsQuality reports whether a snapshot of a port is to have the quality of its link.
func (t *taking) concernsQuality(p *askedPort) bool {
	since := t.a.Clock.Now().Sub(p.quality)
	switch t.Trigger {
	case verbs.TriggerBase:
		return p.quality.IsZero() || since >= qualityInterval
	case verbs.Trigger(verbs.EventPortErr.String()), verbs.TriggerState:
		return p.quality.IsZero() || since >= qualityGap
	}
	return false
}

// readSensors reads the temperature, which the driver asks the firmware for.
func (t *taking) readSensors() {
	switch {
	case !t.quality:
	case t.unanswered != "":
		t.leaveOut(string(verbs.CountersHWMon), t.unanswered)
	case !t.over(string(verbs.CountersHWMon)):
		var values map[string]uint64
		var err error
		t.a.timed(func() { values, err = t.a.Device.ReadCounters(t.Port, verbs.CountersHWMon) })
		t.keep(verbs.CountersHWMon, values, err)
	}
}

func (t *taking) readErrorCorrection() {
	values, err := t.a.Device.ReadCounters(t.Port, verbs.CountersFEC)
	t.keep(verbs.CountersFEC, values, err)
}

func (t *taking) readStatistics() {
	values, err := t.a.Device.ReadCounters(t.Port, verbs.CountersNetDev)
	t.keep(verbs.CountersNetDev, values, err)
}
