package session

import (
	"errors"
	"fmt"
	"time"

	"rdma_events/internal/device/verbs"
)

// The limits of a snapshot.
const (
	// snapshotTime is the time after which a snapshot starts no further part.
	snapshotTime = 5 * time.Second
	// afterFatal is the time after device_fatal during which no call is made under the kernel's RTNL lock.
	afterFatal = 10 * time.Second
	// qualityInterval is the interval at which the quality of a link that is up is read. Links degrade over hours and days. The
	// quality is also read after a drop of the link, but not within qualityGap after the last reading.
	qualityInterval = time.Hour
	qualityGap      = time.Minute
)

// snapshotRun is a snapshot that is being taken.
type snapshotRun struct {
	verbs.Snapshot
	a     *Asker
	ended <-chan struct{} // closed when the session ends
	until time.Time
	// unanswered is the reason to assume that the device may not answer; "" if there is none.
	unanswered string
	// closed is set once the device is closed.
	closed bool
	// quality is set if the snapshot includes the quality of the link, and errorCorrection if that includes the counts of the
	// forward error correction.
	quality, errorCorrection bool
}

// takeSnapshot reads the parts of one snapshot. Parts that cannot hang come first, then those that
// may hang in the device's firmware, then those that need the kernel's RTNL lock. Before each group
// it sends what it has read so far. The only error is ErrClosed.
func (a *Asker) takeSnapshot(ended <-chan struct{}, p *askedPort, base bool) error {
	why, at, merged := p.request.take(base)
	if why == "" {
		return nil
	}
	t := snapshotRun{a: a, ended: ended, until: a.Clock.Now().Add(snapshotTime)}
	t.Port, t.Trigger, t.At, t.Merged, t.Mono = p.number, why, at, merged, a.Clock.Monotonic()
	if verbs.LinkLayer(p.layer.Load()) != verbs.LinkInfiniBand {
		t.readNetDev()
	}
	if why != verbs.TriggerBase {
		t.send()
	}
	if t.quality = t.wantsQuality(p); t.quality {
		// If the driver has no such counts, each attempt may write a line to the kernel log: one an hour is enough.
		t.errorCorrection = why == verbs.TriggerBase || p.quality.IsZero() || p.countsBlocks
		p.quality = a.Clock.Now()
	}
	t.checkFirmware()
	t.readCounters()
	t.readSensors()
	if why != verbs.TriggerBase && t.wantsEthtool() {
		t.send()
	}
	t.askEthtool()
	if t.errorCorrection && why == verbs.TriggerBase { // after a drop a driver may lack counts until the link is up again
		p.countsBlocks = len(t.Counters[verbs.CountersFEC]) > 0
	}
	t.Done = true
	t.send()
	if t.closed {
		return verbs.ErrClosed
	}
	return nil
}

// send sends a copy of the snapshot as read so far. The outbox keeps the copy.
func (t *snapshotRun) send() {
	t.Took = t.a.Clock.Monotonic() - t.Mono
	v := t.Clone()
	t.a.Send(verbs.Item{Snapshot: &v})
}

// omit records a part that was not read, and why.
func (t *snapshotRun) omit(what, why string) { t.LeftOut = append(t.LeftOut, what+": "+why) }

// isOver reports whether the snapshot must not start a further part. It records the part that is omitted for it.
func (t *snapshotRun) isOver(what string) bool {
	select {
	case <-t.ended:
		t.omit(what, "the watch ended")
		return true
	default:
	}
	if t.a.Clock.Now().After(t.until) {
		t.omit(what, "the snapshot took longer than "+snapshotTime.String())
		return true
	}
	return t.closed
}

// recordError reports whether a part could not be read, and records the reason. A part that the
// device does not have (ErrUnsupported) is not recorded.
func (t *snapshotRun) recordError(what string, err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, verbs.ErrClosed):
		t.closed = true
	case !errors.Is(err, verbs.ErrUnsupported):
		t.omit(what, reasonOf(err))
	}
	return true
}

// reasonOf returns the text of an error without device and port, which the snapshot contains already.
func reasonOf(err error) string {
	var op *verbs.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return err.Error()
}

func (t *snapshotRun) readNetDev() {
	n, err := t.a.Device.ReadNetDev(t.Port)
	if !t.recordError("network device", err) {
		t.NetDev = &n
	}
}

const notAnswering = "the device is not answering another command"

// checkFirmware finds out by a command whether the device answers. It makes no command if reading the
// hw_counters is one: their reading then tells. With some drivers that read is no command, or has
// lasting effects if it fails.
func (t *snapshotRun) checkFirmware() {
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
		t.a.timeCall(func() { err = t.a.Device.QueryQP(t.Port) })
		t.a.refusals.Record(t.Port, verbs.ReadQueryQP, err)
		t.recordAnswer(t.a.Clock.Now().Sub(begin), err)
		if errors.Is(err, verbs.ErrUnsupported) {
			t.unanswered = "no probe has a queue pair, whose query would show that the device answers"
		}
	}
}

// recordAnswer records whether the device has answered a command in time.
func (t *snapshotRun) recordAnswer(took time.Duration, err error) {
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

// readCounters reads the counters of the device. The hw_counters, which come first, may be firmware
// commands; if the device is slow to answer them, the others are not read.
func (t *snapshotRun) readCounters() {
	t.CountersAt = t.a.Clock.Monotonic()
	if t.unanswered != "" {
		t.omit("counters", t.unanswered)
		return
	}
	if t.isOver("counters") {
		return
	}
	var values map[string]uint64
	var err error
	begin := t.a.Clock.Now()
	values, err = t.readSource(verbs.CountersHardware)
	t.addCounters(verbs.CountersHardware, values, err)
	if t.a.Device.Commands().Has(verbs.CommandHWCounters) {
		t.recordAnswer(t.a.Clock.Now().Sub(begin), err)
	}
	for _, from := range []verbs.CounterSource{verbs.CountersPort, verbs.CountersPCI} {
		if t.unanswered != "" {
			t.omit(string(from), t.unanswered)
			return
		}
		if t.isOver(string(from)) {
			return
		}
		values, err = t.readSource(from)
		t.addCounters(from, values, err)
		if err != nil && !errors.Is(err, verbs.ErrUnsupported) {
			t.unanswered = "the device answered a command with: " + reasonOf(err) // reading each file may be a command
		}
	}
}

// readSource reads the counters of a source, unless the firmware refuses them.
func (t *snapshotRun) readSource(from verbs.CounterSource) (values map[string]uint64, err error) {
	read, limited := map[verbs.CounterSource]verbs.Read{
		verbs.CountersHardware: verbs.ReadHWCounters, verbs.CountersPort: verbs.ReadCounters,
	}[from]
	if limited && !t.a.refusals.Allow(t.Port, read) {
		return nil, fmt.Errorf("%w: %w", verbs.ErrUnsupported, verbs.ErrRefused)
	}
	t.a.timeCall(func() { values, err = t.a.Device.ReadCounters(t.Port, from) })
	if limited {
		t.a.refusals.Record(t.Port, read, err)
	}
	return values, err
}

// addCounters adds the counters of a source to the snapshot, including those read before an error.
func (t *snapshotRun) addCounters(from verbs.CounterSource, values map[string]uint64, err error) {
	t.recordError(string(from), err)
	if len(values) == 0 {
		return
	}
	if t.Counters == nil {
		t.Counters = verbs.Counters{}
	}
	t.Counters[from] = values
}

// wantsLink reports whether to ask the driver why there is no link.
func (t *snapshotRun) wantsLink() bool {
	n := t.NetDev
	return t.Trigger != verbs.TriggerBase && t.a.Options.Ethtool >= verbs.EthtoolLink &&
		n != nil && n.AdminUp && n.HasCarrier && !n.Carrier
}

func (t *snapshotRun) wantsStatistics() bool {
	return t.a.Options.Ethtool >= verbs.EthtoolAll && t.NetDev != nil
}

// wantsErrorCorrection reports whether to read the counts of the forward error correction. On InfiniBand the network device does
// not have them.
func (t *snapshotRun) wantsErrorCorrection() bool {
	return t.errorCorrection && t.a.Options.Ethtool >= verbs.EthtoolLink && t.NetDev != nil && !t.NetDev.Virtual
}

func (t *snapshotRun) wantsEthtool() bool {
	return t.wantsLink() || t.wantsErrorCorrection() || t.wantsStatistics()
}

// askEthtool makes the calls for which the kernel takes its RTNL lock. The host has one such lock,
// and a device whose firmware hangs would hold it for as long as its driver waits: 60 s with mlx5.
// The device must therefore have answered a command of this snapshot before.
func (t *snapshotRun) askEthtool() {
	for _, one := range []struct {
		what  string
		wants bool
		ask   func()
	}{
		{"ext_state", t.wantsLink(), t.askLink},
		{string(verbs.CountersFEC), t.wantsErrorCorrection(), t.readErrorCorrection},
		{"ethtool", t.wantsStatistics(), t.readStatistics},
	} {
		if !one.wants {
			continue
		}
		if why := t.reasonAgainstRTNL(); why != "" {
			t.omit(one.what, why)
		} else if !t.isOver(one.what) {
			t.a.callUnderRTNL(one.ask)
		}
	}
}

// reasonAgainstRTNL returns why no call under the RTNL lock may be made now; "" if it may.
func (t *snapshotRun) reasonAgainstRTNL() string {
	fatal := t.a.fatal.Load()
	switch {
	case t.unanswered != "":
		return t.unanswered
	case !t.a.Answers(): // the device has stopped responding since it answered the command of this snapshot
		return notAnswering
	case fatal != nil && t.a.Clock.Now().Sub(*fatal) < afterFatal:
		return "device_fatal was less than " + afterFatal.String() + " ago"
	case t.a.Device.Commands()&verbs.NewCommandSet(verbs.CommandHWCounters, verbs.CommandQueryQP) == 0 && !t.NetDev.Virtual:
		return "the RDMA device has no command that shows whether the firmware of " + t.NetDev.Name + " answers"
	}
	return ""
}

func (t *snapshotRun) askLink() {
	t.LinkAt = t.a.Clock.Monotonic()
	l, err := t.a.Device.AskLink(t.Port)
	if !t.recordError("ext_state", err) {
		t.Link = &l
	}
}

// wantsQuality reports whether the snapshot of a port includes the quality of its link.
func (t *snapshotRun) wantsQuality(p *askedPort) bool {
	since := t.a.Clock.Now().Sub(p.quality)
	switch t.Trigger {
	case verbs.TriggerBase:
		return p.quality.IsZero() || since >= qualityInterval
	case verbs.Trigger(verbs.EventPortErr.String()), verbs.TriggerState:
		return p.quality.IsZero() || since >= qualityGap
	}
	return false
}

// readSensors reads the temperature, for which the driver asks the firmware.
func (t *snapshotRun) readSensors() {
	switch {
	case !t.quality:
	case t.unanswered != "":
		t.omit(string(verbs.CountersHWMon), t.unanswered)
	case !t.isOver(string(verbs.CountersHWMon)):
		var values map[string]uint64
		var err error
		t.a.timeCall(func() { values, err = t.a.Device.ReadCounters(t.Port, verbs.CountersHWMon) })
		t.addCounters(verbs.CountersHWMon, values, err)
	}
}

func (t *snapshotRun) readErrorCorrection() {
	values, err := t.a.Device.ReadCounters(t.Port, verbs.CountersFEC)
	t.addCounters(verbs.CountersFEC, values, err)
}

func (t *snapshotRun) readStatistics() {
	values, err := t.a.Device.ReadCounters(t.Port, verbs.CountersNetDev)
	t.addCounters(verbs.CountersNetDev, values, err)
}
