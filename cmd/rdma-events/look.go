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
	// openTimeout is the time limit for opening the devices.
	openTimeout = 10 * time.Second
	// openPollInterval is the time between two checks whether the devices have been opened.
	openPollInterval = 50 * time.Millisecond
)

// errIncomplete is wrapped by the error of examineOnce if the state of some devices is unknown.
var errIncomplete = errors.New("the state of some devices is unknown")

// examineOnce opens all devices of a configuration once, without probes. With errIncomplete it also returns the part of
// the status that is known.
func examineOnce(ctx context.Context, config string) (_ *health.Status, err error) {
	c, err := loadConfig(config)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find name of host: %w", err)
	}
	points, err := openDevicesOnce(ctx, c)
	if err != nil && !errors.Is(err, errIncomplete) {
		return nil, err
	}
	s := health.JudgeOnce(buildVersion(), host, points, time.Now())
	return s, errors.Join(err, ctx.Err())
}

// openDevicesOnce opens the devices of a configuration once, without probes, and returns their points.
func openDevicesOnce(ctx context.Context, c agent.Config) ([]measure.Point, error) {
	c.Probe.Interval = 0
	c.Applications.Events = false // one tracer on the host is enough
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
	points, err := runUntilOpened(ctx, devices, wanted)
	if err = errors.Join(err, devices.Close()); err != nil {
		return nil, err
	}
	if countSettled(points) < wanted {
		err = fmt.Errorf("%w: they have not answered within %s", errIncomplete, openTimeout)
	}
	return points, err
}

// runUntilOpened runs the devices until as many as wanted are open or refused, or the time is over, and returns their
// points.
func runUntilOpened(ctx context.Context, devices *agent.Watcher, wanted int) ([]measure.Point, error) {
	ctx, stop := context.WithTimeout(ctx, openTimeout)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- devices.Run(ctx) }()
	tick := time.NewTicker(openPollInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		i := devices.Gather(time.Now())
		points := append(i.Points, i.Own)
		if ctx.Err() != nil || countSettled(points) >= wanted {
			stop()
			return points, <-ended
		}
	}
}

// countSettled returns the number of devices for which it is known whether they can be watched, and what state their
// ports have.
func countSettled(points []measure.Point) int {
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
