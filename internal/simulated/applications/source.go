package applications

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/simulated/devices"
)

// source is the trace.Source of a world.
type source struct {
	w       *devices.World
	counts  *processCounts
	closing context.Context // done after Close
	closes  context.CancelFunc

	mu    sync.Mutex // held by Next
	known int64      // time up to which steps were counted
	due   int64      // time of the next Update
	crash int64      // time up to which the tracer's crashes have happened
	end   error      // the error that Next returns from now on; nil: the source is open
}

// Open starts to trace a world's applications. A thread hangs if it waits longer than hangAfter. The error wraps trace.ErrNoDevice,
// ErrPermission or ErrUnsupported.
func Open(w *devices.World, hangAfter time.Duration) (trace.Source, error) {
	now := w.Now()
	if err := checkRefused(w, now); err != nil {
		return nil, fmt.Errorf("trace the simulator: %w", err)
	}
	s := &source{w: w, counts: newProcessCounts(w, now, hangAfter), known: now, due: now + int64(time.Second), crash: now}
	s.closing, s.closes = context.WithCancel(context.Background())
	return s, nil
}

func checkRefused(w *devices.World, at int64) error {
	err := w.TracerRefused(at)
	switch {
	case errors.Is(err, verbs.ErrPermission):
		return fmt.Errorf("%w: CAP_BPF, says the scenario", trace.ErrPermission)
	case errors.Is(err, verbs.ErrUnsupported):
		return fmt.Errorf("%w: the scenario says so", trace.ErrUnsupported)
	case err != nil:
		return trace.ErrNoDevice
	}
	return nil
}

// Attached implements trace.Source.
func (s *source) Attached() trace.Attached { return trace.Attached{Hooks: "sim"} }

// Close implements trace.Source.
func (s *source) Close() error {
	s.closes()
	return nil
}

// Next implements trace.Source.
func (s *source) Next(ctx context.Context) (*trace.Update, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		return nil, s.end
	}
	if err := s.wait(ctx); err != nil {
		return nil, fmt.Errorf("wait for the next second: %w", err)
	}
	now := s.w.Now()
	if s.closing.Err() != nil {
		s.end = trace.ErrClosed
	}
	for s.due <= now {
		s.due += int64(time.Second)
	}
	s.counts.addSteps(s.w.AppSteps(s.known, now))
	s.known = now
	return s.counts.newUpdate(now), nil
}

// wait waits until the second has passed or the source is closed. It returns an error only if ctx ends. It crashes the process if the
// scenario has a crash of the tracer in the meantime.
func (s *source) wait(ctx context.Context) error {
	either, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	for {
		crash, die, ok := s.w.TracerCrash(s.crash)
		if !s.w.Sleep(min(crash, s.due), either.Done()) {
			if s.closing.Err() != nil {
				return nil
			}
			return ctx.Err()
		}
		if !ok || crash > s.due {
			return nil
		}
		s.crash = crash
		die()
	}
}
