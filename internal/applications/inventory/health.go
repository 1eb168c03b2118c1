package inventory

import (
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// Worker describes the tracer's process. The zero value means that nothing is known.
type Worker struct {
	Status status.Status
	CPU    int64 // processor time of the process Status.PID in ns; 0: not known
	RSS    int64 // bytes; 0: not known
}

// health accumulates the state of all tracers so far.
type health struct {
	attached   bool
	attachment trace.Attached // of the last tracer
	processes  int
	gaps       uint64        // times without a tracer after one had attached
	blind      time.Duration // total duration of the finished gaps
	lastUpdate int64         // time of the last message of a tracer, CLOCK_MONOTONIC ns; 0: there was none

	lost, full         uint64 // counts of ended tracers
	lastLost, lastFull uint64 // counts of the last tracer

	cpu, lastCPU int64 // processor time of ended processes and of the last one, ns
	pid          int   // of the last process
}

func (h *health) recordAttach(a *trace.Attached, mono int64) {
	if h.lastUpdate != 0 {
		h.blind += time.Duration(max(0, mono-h.lastUpdate))
	}
	h.attached, h.attachment, h.lastUpdate = true, *a, mono
}

func (h *health) recordUpdate(s *trace.Update, mono int64) {
	h.lastUpdate, h.processes = min(s.Mono, mono), s.Processes
	h.lastLost, h.lastFull = max(h.lastLost, s.Lost), max(h.lastFull, s.Full)
}

func (h *health) recordDetach() {
	if h.attached {
		h.gaps++
	}
	h.attached, h.processes = false, 0
	h.lost, h.full = h.lost+h.lastLost, h.full+h.lastFull
	h.lastLost, h.lastFull = 0, 0
}

// cpuTime returns the processor time of all processes so far, in ns.
func (h *health) cpuTime(w *Worker) int64 {
	if w.Status.PID != h.pid {
		h.cpu, h.lastCPU, h.pid = h.cpu+h.lastCPU, 0, w.Status.PID
	}
	h.lastCPU = max(h.lastCPU, w.CPU)
	return h.cpu + h.lastCPU
}

func (h *health) newPoint(w *Worker, m *Moment) *measure.Tracer {
	blind := h.blind
	if !h.attached && h.lastUpdate != 0 {
		blind += m.since(h.lastUpdate)
	}
	return &measure.Tracer{
		Attached: h.attached, Hooks: h.attachment.Hooks, Missing: len(h.attachment.Missing), Worker: w.Status, Gaps: h.gaps, Blind: int64(blind),
		Lost: h.lost + h.lastLost, Full: h.full + h.lastFull, Processes: h.processes, Load: int64(h.attachment.Load), CPU: h.cpuTime(w),
		RSS: w.RSS, At: m.Wall,
	}
}
