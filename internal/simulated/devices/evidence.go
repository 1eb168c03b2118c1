package devices

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// counterEntry is a [[counter]] of a scenario: an increase of a port's counter.
type counterEntry struct {
	target
	schedule
	from  verbs.CounterSource
	name  string
	by    uint64
	index int // of its table, for errors
}

func readCounterEntry(t *table) counterEntry {
	sources := []string{
		string(verbs.CountersHardware), string(verbs.CountersPort), string(verbs.CountersPCI), string(verbs.CountersNetDev),
		string(verbs.CountersFEC), string(verbs.CountersHWMon),
	}
	e := counterEntry{
		target: readTarget(t, true), schedule: t.schedule(""), index: t.index,
		from: verbs.CounterSource(t.choice("source", string(verbs.CountersHardware), sources)),
		name: t.text("name", ""),
		by:   uint64(t.integer("by", 1, 1, 1e15)),
	}
	if e.name == "" || len(e.name) > 63 {
		t.fail("name", "is %q; allowed: the name of a counter, up to 63 characters", e.name)
	}
	return e
}

func (h *hardware) planCounter(e counterEntry) {
	for _, port := range h.portsOf(e.target) {
		l := &h.ports[port-1]
		l.counters[e.from][e.name] += 0 // listed from the start, like the counters of a driver
		h.addEntry(e.schedule, true, func(int64) { l.counters[e.from][e.name] += e.by })
	}
}

// Causes of a link that is down, in addition to ethtool's extended states.
const (
	noCarrier = "carrier" // the network device is up
	setDown   = "admin"   // the network device was set down
)

// extStates are the extended states that ethtool may report for a link that is down.
var extStates = []string{
	"autoneg", "link_training_failure", "bad_signal_integrity", "no_cable", "cable_issue", "eeprom_issue",
	"calibration_failure", "power_budget_exceeded", "overheat", "module",
}

// newCounters returns the counters of every port with a link layer.
func newCounters(layer verbs.LinkLayer) verbs.Counters {
	c := verbs.Counters{
		verbs.CountersHardware: {"out_of_buffer": 0, "packet_seq_err": 0, "local_ack_timeout_err": 0, "rnr_nak_retry_err": 0},
		verbs.CountersPort:     {"symbol_error": 0, "link_error_recovery": 0, "port_rcv_errors": 0, "port_xmit_wait": 0},
		verbs.CountersPCI:      {"correctable RxErr": 0, "correctable BadTLP": 0, "nonfatal CmpltTO": 0},
		verbs.CountersNetDev:   {},
		verbs.CountersFEC:      {}, // only the counters of a scenario
		verbs.CountersHWMon:    {}, // likewise
	}
	if layer == verbs.LinkEthernet {
		c[verbs.CountersNetDev] = map[string]uint64{"rx_prio3_pause": 0, "tx_prio3_pause": 0, "rx_discards_phy": 0, "rx_crc_errors_phy": 0}
	}
	return c
}

// dataRate is the growth of a port's data counter, in words of 4 bytes per second.
const dataRate = 300_000_000

// ReadNetDev implements verbs.Device.
func (d *device) ReadNetDev(port int) (verbs.NetDev, error) {
	var n verbs.NetDev
	err := d.withLink(port, func(l *link) error {
		if l.attr.NetDev == "" {
			return fmt.Errorf("%w: no network device", verbs.ErrUnsupported)
		}
		up := l.isUp || l.why != setDown
		n = verbs.NetDev{
			Name: l.attr.NetDev, AdminUp: up, HasCarrier: up, Carrier: l.isUp,
			CarrierChanges: int64(l.changes), HasCarrierChanges: true,
		}
		return nil
	})
	return n, opError("read network device", d.attr.Name, port, err)
}

// AskLink implements verbs.Device.
func (d *device) AskLink(port int) (verbs.Link, error) {
	defer d.recordCall(ledger.CallEthtool, port)()
	var v verbs.Link
	err := d.withLink(port, func(l *link) error {
		if !l.isUp && slices.Contains(extStates, l.why) {
			v.ExtState = l.why
		}
		return nil
	})
	return v, opError("ask ethtool", d.attr.Name, port, err)
}

// ReadCounters implements verbs.Device.
func (d *device) ReadCounters(port int, from verbs.CounterSource) (map[string]uint64, error) {
	values, err := d.readCounters(port, from)
	return values, opError("read "+string(from), d.attr.Name, port, err)
}

func (d *device) readCounters(port int, from verbs.CounterSource) (values map[string]uint64, err error) {
	call := ledger.CallReadSysfs
	switch {
	case from == verbs.CountersNetDev, from == verbs.CountersFEC:
		call = ledger.CallEthtool
	case from == verbs.CountersHardware && d.h.commands.Has(verbs.CommandHWCounters):
		if err := d.runCommand(port, verbs.CommandHWCounters, call); err != nil {
			return nil, err
		}
	}
	defer d.recordCall(call, port)()
	err = d.withLink(port, func(l *link) error {
		if values = maps.Clone(l.counters[from]); len(values) == 0 {
			return fmt.Errorf("%w: no %s", verbs.ErrUnsupported, from)
		}
		if from == verbs.CountersPort && l.isUp {
			values["port_xmit_data"] = uint64(d.w.clock() / int64(time.Second) * dataRate)
		}
		return nil
	})
	return values, err
}

// recordCall records a call in the ledger until the returned function is called.
func (d *device) recordCall(call ledger.Call, port int) func() {
	d.led.SetEvidenceCall(ledger.ThreadCall{Call: call, Port: port, Since: d.w.clock()})
	return func() { d.led.SetEvidenceCall(ledger.ThreadCall{Since: d.w.clock()}) }
}

// withLink calls f with the current link of a port. It is outside the gate: Close does not
// wait for the caller.
func (d *device) withLink(port int, f func(*link) error) error {
	switch {
	case d.gate.isShutting():
		return verbs.ErrClosed
	case port < 1 || port > len(d.h.ports):
		return fmt.Errorf("%w: the device has %d ports", verbs.ErrUnsupported, len(d.h.ports))
	}
	d.h.mu.Lock()
	defer d.h.mu.Unlock()
	d.h.advance(d.w.clock())
	if d.gone {
		return verbs.ErrNoDevice
	}
	return f(&d.h.ports[port-1])
}
