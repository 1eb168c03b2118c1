package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"rdma_events/internal/agent"
	"rdma_events/internal/agent/health"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

const (
	// openTime is how long one look waits for devices to be opened.
	openTime = 10 * time.Second
	// lookAgain is how often it asks whether they are.
	lookAgain = 50 * time.Millisecond
)

// errUnsettled is wrapped by the error of look if it is not known of each device whether it can be watched.
var errUnsettled = errors.New("cannot tell of each device how it is")

// look opens all devices of a configuration once, without probes. With errUnsettled it returns what is known.
func look(ctx context.Context, config string) (_ *health.Status, err error) {
	c, err := loadConfig(config)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find name of host: %w", err)
	}
	points, err := openOnce(ctx, c)
	if err != nil && !errors.Is(err, errUnsettled) {
		return nil, err
	}
	s := health.JudgeOnce(buildVersion(), host, points, time.Now())
	return s, errors.Join(err, ctx.Err())
}

// openOnce is look for a configuration, and returns the points of the devices.
func openOnce(ctx context.Context, c agent.Config) ([]measure.Point, error) {
	c.Probe.Interval = 0
	c.Applications.Events = false // the plugin's own tracer is enough for the host
	c.Fabric.Disable()
	if err := c.Check(); err != nil {
		return nil, err
	}
	here, err := c.FindDevices(ctx)
	if err != nil {
		return nil, err
	}
	wanted := 0
	for _, d := range here {
		if c.Watches(d, here) {
			wanted++
		}
	}
	devices, err := agent.Open(&c, func(measure.Point) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	points, err := opened(ctx, devices, wanted)
	if err = errors.Join(err, devices.Close()); err != nil {
		return nil, err
	}
	if settled(points) < wanted {
		err = fmt.Errorf("%w: not all have answered within %s", errUnsettled, openTime)
	}
	return points, err
}

// opened runs the devices until as many as wanted are open or refused, for a limited time, and returns their points.
func opened(ctx context.Context, devices *agent.Watcher, wanted int) ([]measure.Point, error) {
	ctx, stop := context.WithTimeout(ctx, openTime)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- devices.Run(ctx) }()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		i := devices.Gather(time.Now())
		points := append(i.Points, i.Own)
		if ctx.Err() != nil || settled(points) >= wanted {
			stop()
			return points, <-ended
		}
	}
}

// settled counts the devices of which it is known whether they can be watched, and the state of their ports.
func settled(points []measure.Point) int {
	n := 0
	unknown := map[string]bool{}
	for p := range measure.OfType[*measure.Port](points) {
		if !p.HasState {
			unknown[p.Device] = true
		}
	}
	for d := range measure.OfType[*measure.Device](points) {
		refused := !d.Open && d.Reason != status.ReasonStarting && d.Reason != status.ReasonOK
		if d.Present && (refused || d.Open && !unknown[d.Device]) {
			n++
		}
	}
	return n
}
