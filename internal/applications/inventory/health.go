package inventory

import (
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// Worker is how the tracer's process does. The zero value is one that nothing is known of.
type Worker struct {
	Status status.Status
	CPU    int64 // ns, of the process Status.PID; 0: not known
	RSS    int64 // bytes; 0: not known
}

// health is how the tracers have done so far.
type health struct {
	attached  bool
	seen      trace.Attached // by the last one
	processes int
	gaps      uint64
	blind     time.Duration // in the gaps that are over
	heard     int64         // CLOCK_MONOTONIC ns: of a tracer for the last time; 0: there was none

	lost, full         uint64 // by tracers that have ended
	lastLost, lastFull uint64 // by the last one

	cpu, lastCPU int64 // ns, of processes that have ended and of the last one
	pid          int   // of the last one
}

func (h *health) attach(a *trace.Attached, mono int64) {
	if h.heard != 0 {
		h.blind += time.Duration(max(0, mono-h.heard))
	}
	h.attached, h.seen, h.heard = true, *a, mono
}

func (h *health) heardOf(s *trace.Update, mono int64) {
	h.heard, h.processes = min(s.Mono, mono), s.Processes
	h.lastLost, h.lastFull = max(h.lastLost, s.Lost), max(h.lastFull, s.Full)
}

func (h *health) detach() {
	if h.attached {
		h.gaps++
	}
	h.attached, h.processes = false, 0
	h.lost, h.full = h.lost+h.lastLost, h.full+h.lastFull
	h.lastLost, h.lastFull = 0, 0
}

// used returns the processor time of all processes so far.
func (h *health) used(w *Worker) int64 {
	if w.Status.PID != h.pid {
		h.cpu, h.lastCPU, h.pid = h.cpu+h.lastCPU, 0, w.Status.PID
	}
	h.lastCPU = max(h.lastCPU, w.CPU)
	return h.cpu + h.lastCPU
}

func (h *health) point(w *Worker, m *Moment) *measure.Tracer {
	blind := h.blind
	if !h.attached && h.heard != 0 {
		blind += m.since(h.heard)
	}
	return &measure.Tracer{
		Attached: h.attached, Hooks: h.seen.Hooks, Missing: len(h.seen.Missing), Worker: w.Status, Gaps: h.gaps, Blind: int64(blind),
		Lost: h.lost + h.lastLost, Full: h.full + h.lastFull, Processes: h.processes, Load: int64(h.seen.Load), CPU: h.used(w),
		RSS: w.RSS, At: m.Wall,
	}
}
