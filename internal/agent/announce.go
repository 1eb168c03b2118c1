package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// announcer logs each device when it is opened. Errors are logged where they occur, not here.
type announcer struct {
	log *slog.Logger

	mu   sync.Mutex
	open map[string]bool
}

func newAnnouncer(log *slog.Logger) *announcer {
	return &announcer{log: log, open: make(map[string]bool)}
}

// logIfOpened logs one line if the point shows that a device has just been opened.
func (a *announcer) logIfOpened(p measure.Point) {
	v, ok := p.(*measure.Device)
	if !ok {
		return
	}
	a.mu.Lock()
	opened := v.Open && !a.open[v.Device]
	if v.Open {
		a.open[v.Device] = true
	} else {
		delete(a.open, v.Device)
	}
	a.mu.Unlock()
	if opened {
		a.log.Info("open: "+describeDevice(v), "device", v.Device)
	}
}

// describeDevice returns the attributes of a device for the log line.
func describeDevice(v *measure.Device) string {
	s := fmt.Sprintf("driver %s, ports %d, completion vectors %d", v.Attr.Driver, v.Attr.Ports, v.Attr.Vectors)
	if v.Attr.Firmware != "" {
		s += ", firmware " + v.Attr.Firmware
	}
	if !v.Attr.EventsSupported {
		s += "; this driver raises no asynchronous events"
	}
	return s
}

// loggingDiscovery is a Discovery that logs a line when the host has no RDMA device.
type loggingDiscovery struct {
	verbs.Discovery
	log *slog.Logger
}

// Run implements verbs.Discovery.
func (l loggingDiscovery) Run(ctx context.Context, report func([]verbs.Found)) error {
	return l.Discovery.Run(ctx, func(found []verbs.Found) {
		if len(found) == 0 {
			l.log.Info(`no RDMA devices on this host, waiting for one; backend = "sim" simulates some, as rdma-events watch -demo does`)
		}
		report(found)
	})
}
