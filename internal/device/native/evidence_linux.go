//go:build linux && cgo

package native

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ethtool"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/nldev"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

// countersTime is the time after which no further counter of a source is read. Each of hundreds of
// files may be a command to the device.
const countersTime = time.Second

var errNoNetDev = fmt.Errorf("%w: no network device", verbs.ErrUnsupported)

// ReadNetDev implements verbs.Device.
func (d *nativeDevice) ReadNetDev(port int) (verbs.NetDev, error) {
	n, err := d.sysfs.NetDev(d.netDevName(port))
	return n, verbs.NewOpError("read network device", d.name, port, err)
}

// netDevName returns the name of a port's network device: the current one or, failing that, the last
// one that a query found. A port that is down may have no GID that names its network device.
func (d *nativeDevice) netDevName(port int) string {
	if name := d.sysfs.PortNetDev(d.name, port); name != "" {
		return name
	}
	name, _ := d.netDevs.Load(port)
	last, _ := name.(string)
	return last
}

// ReadCounters implements verbs.Device. Like ReadCounter it uses no object of the library.
func (d *nativeDevice) ReadCounters(port int, from verbs.CounterSource) (counters map[string]uint64, err error) {
	op := "read " + string(from)
	if d.isClosed() {
		return nil, verbs.NewOpError(op, d.name, port, verbs.ErrClosed)
	}
	switch from {
	case verbs.CountersNetDev:
		d.callEthtool(port, func(netdev string) { counters, err = queryStatistics(netdev) })
	case verbs.CountersFEC:
		d.callEthtool(port, func(netdev string) { counters, err = queryErrorCorrection(netdev) })
	case verbs.CountersHWMon:
		callSysfs(d.led.SetEvidenceCall, port, func() { counters, err = d.sysfs.ReadSensors(d.name) })
	case verbs.CountersPCI: // the kernel keeps these counts itself, so the read cannot hang
		counters, err = d.sysfs.ReadAER(d.name)
	default:
		callSysfs(d.led.SetEvidenceCall, port, func() { counters, err = d.readCounters(port, from) })
	}
	return counters, verbs.NewOpError(op, d.name, port, err)
}

// readCounters reads hw_counters by netlink, which takes one command to the device instead of one
// for each file. If the kernel does not support that, and the attempt was quick, it reads them from
// sysfs. Other counters are always read from sysfs.
func (d *nativeDevice) readCounters(port int, from verbs.CounterSource) (map[string]uint64, error) {
	begin := clock.Monotonic()
	read, refusals := verbs.ReadCounters, verbs.RefusalRow
	if from == verbs.CountersHardware {
		read = verbs.ReadHWCounters
	}
	again := d.refusals.InARow(port, read) > 0
	if again {
		refusals = 1 // one file is enough to see whether the firmware still refuses the read
	}
	if from == verbs.CountersHardware && !again {
		counters, err := nldev.QueryCounters(d.name, port)
		if err == nil || clock.Monotonic()-begin > int64(verbs.AnswerLimit) {
			return counters, err
		}
	}
	return d.sysfs.ReadCounters(d.name, port, from, refusals, func() bool {
		return clock.Monotonic()-begin < int64(countersTime) && !d.isClosed()
	})
}

// queryStatistics returns the error counts among the statistics of a network device.
func queryStatistics(netdev string) (map[string]uint64, error) {
	if netdev == "" {
		return nil, errNoNetDev
	}
	s, err := ethtool.QueryStatistics(netdev)
	if err == nil && len(s.Values) == 0 {
		err = fmt.Errorf("%w: %s has no statistics of errors", verbs.ErrUnsupported, netdev)
	}
	return s.Values, err
}

// queryErrorCorrection returns the counts of a network device's forward error correction.
func queryErrorCorrection(netdev string) (map[string]uint64, error) {
	if netdev == "" {
		return nil, errNoNetDev
	}
	f, err := ethtool.QueryFEC(netdev)
	if err != nil {
		return nil, err
	}
	return map[string]uint64{verbs.FECCorrected: f.Corrected, verbs.FECUncorrectable: f.Uncorrectable}, nil
}

// AskLink implements verbs.Device.
func (d *nativeDevice) AskLink(port int) (link verbs.Link, err error) {
	if d.isClosed() {
		return verbs.Link{}, verbs.NewOpError("ask ethtool", d.name, port, verbs.ErrClosed)
	}
	d.callEthtool(port, func(netdev string) {
		var l ethtool.Link
		if netdev == "" {
			err = errNoNetDev
			return
		}
		l, err = ethtool.QueryLink(netdev)
		link = verbs.Link{ExtState: l.ExtState, ExtSubstate: l.ExtSubstate}
	})
	return link, verbs.NewOpError("ask ethtool", d.name, port, err)
}

// callEthtool runs f with the name of a port's network device on one thread, and records the call in
// the ledger.
func (d *nativeDevice) callEthtool(port int, f func(netdev string)) {
	name := d.netDevName(port)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d.led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallEthtool, Port: port, Thread: unix.Gettid(), Since: clock.Monotonic()})
	defer func() { d.led.SetEvidenceCall(ledger.ThreadCall{Since: clock.Monotonic()}) }()
	f(name)
}
