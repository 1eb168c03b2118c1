// Package healthtest provides the points of a healthy host for tests.
package healthtest

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// Host holds the points of a host with one device, one port, one probe, an application and a tracer.
type Host struct {
	Device    measure.Device
	Port      measure.Port
	Probe     measure.Probe
	Async     measure.Async
	Command   measure.Command
	App       measure.AppAsync
	Hang      measure.AppHang
	Tracer    measure.Tracer
	Collector measure.Collector
}

// Healthy returns a host without problems.
func Healthy() *Host {
	h := &Host{
		Device: measure.Device{
			Device: "mlx5_0", Present: true, Open: true, Reason: status.ReasonOK,
			Worker: status.Status{State: status.StateRunning, Reason: status.ReasonOK},
			Attr:   verbs.DeviceAttr{Name: "mlx5_0", Driver: "mlx5_core", NUMANode: -1},
		},
		Port:    measure.Port{Device: "mlx5_0", Port: 1, Known: true, HasState: true, State: verbs.PortActive, RateBestGbps: 400},
		Probe:   measure.Probe{Device: "mlx5_0", ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodRCWrite}, OK: true, HasOK: true},
		Async:   measure.Async{Device: "mlx5_0", Port: 1},
		Command: measure.Command{Device: "mlx5_0", Port: 1, Call: verbs.CommandHWCounters, Status: measure.CommandOK},
		App:     measure.AppAsync{Device: "mlx5_0", App: "python3", Attached: true},
		Hang:    measure.AppHang{Device: "mlx5_0", App: "python3", Object: verbs.ScopeQP}, // the hang has ended
		Tracer:  measure.Tracer{Attached: true},
	}
	h.Port.RateExpectedGbps, h.Port.ExpectedUp = 400, true
	h.Port.Attr = verbs.PortAttr{RateGbps: 400, Width: "4x", LinkLayer: verbs.LinkInfiniBand}
	return h
}

// Points returns the points of the host in an interval that ends now.
func (h *Host) Points(now time.Time) []measure.Point {
	h.Port.At, h.Hang.At = now, now
	return []measure.Point{
		&h.Async, &h.Port, &h.Probe, &h.Command, &h.App, &h.Hang, &h.Device, &measure.Host{At: now}, &h.Tracer, &h.Collector,
	}
}
