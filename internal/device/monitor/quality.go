package monitor

import (
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// quality is the quality of a port's link at the last reading of its error counters.
type quality struct {
	measure.Quality
	begun       bool   // there was a reading since the device was opened
	active      bool   // the port was active at the last reading
	transitions uint64 // the port's number of transitions at the last reading
}

// updateQuality stores the values of a snapshot that describe the quality of the link. Uncorrectable blocks are normal while a link
// comes up or goes down. They count in WhileActive if the port was active at this reading and at the last one, and has not changed
// its state in between.
func (p *port) updateQuality(s *verbs.Snapshot, t *moment) {
	q := &p.quality
	if n, ok := s.Counters[verbs.CountersHWMon][verbs.Temperature]; ok {
		q.MilliCelsius, q.HasTemperature = n, true
	}
	// The counter is specific to InfiniBand: mlx5 does not count it on Ethernet.
	if n, ok := s.Counters[verbs.CountersPort]["symbol_error"]; ok && p.attr.LinkLayer == verbs.LinkInfiniBand {
		q.SymbolErrors, q.HasSymbolErrors = n, true
	}
	fec, ok := s.Counters[verbs.CountersFEC]
	if !ok {
		return
	}
	v := p.machine.View(t.mono)
	active := v.Known && v.State == verbs.PortActive
	now := fec[verbs.FECUncorrectable]
	if q.begun && q.active && active && q.transitions == v.Transitions && now > q.Uncorrectable {
		q.WhileActive += now - q.Uncorrectable
	}
	q.Corrected, q.Uncorrectable, q.HasFEC = fec[verbs.FECCorrected], now, true
	q.begun, q.active, q.transitions = true, active, v.Transitions
}
