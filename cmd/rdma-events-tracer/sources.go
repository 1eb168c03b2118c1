//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"rdma_events/internal/applications/ebpf"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/applications/tracer"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/simulated/applications"
	"rdma_events/internal/simulated/devices"
	"rdma_events/internal/sys/process"
)

// row is the source of one backend.
type row struct {
	name string // the value of the option backend
	open func(r trace.Request, prepared string) (trace.Source, error)
}

// rows returns the sources of all backends.
func rows() []row {
	return []row{
		{verbs.BackendVerbs, attached},
		{verbs.BackendSim, simulated},
	}
}

// prepare attaches to the kernel, in the first start.
func prepare(tracer.Settings) (tracer.Prepared, error) {
	p, err := ebpf.LoadReporting(process.ReportProgress)
	if err != nil {
		return tracer.Prepared{}, err
	}
	text, err := p.Inherit()
	if err != nil {
		return tracer.Prepared{}, err
	}
	return tracer.Prepared{Text: text, KeepBPF: p.LookupsNeedBPF()}, nil
}

// attached makes the source of what prepare has attached.
func attached(r trace.Request, prepared string) (trace.Source, error) {
	if prepared == "" {
		return nil, fmt.Errorf("%w: the tracer was started without hooks", trace.ErrUnsupported)
	}
	p, err := ebpf.Adopt(prepared)
	if err != nil {
		return nil, err
	}
	return ebpf.Open(p, r.HangAfter)
}

// try attaches to the kernel and ends, and says what it has seen. It is for people and the doctor.
func try(out io.Writer) error {
	p, err := ebpf.Load()
	if err != nil {
		return err
	}
	a := p.Attached()
	fmt.Fprintf(out, "attached by %s in %s; the maps take %.1f MiB of the kernel's memory\n",
		a.Hooks, a.Load.Round(time.Millisecond), float64(p.MapMemory())/(1<<20))
	for _, function := range a.Missing {
		fmt.Fprintf(out, "this kernel has no %s, or does not let it be probed\n", function)
	}
	return p.Close()
}

func simulated(r trace.Request, _ string) (trace.Source, error) {
	world, err := devices.Load(devices.Options{
		Profile: r.Sim.Profile, Scenario: r.Sim.Scenario, Seed: r.Sim.Seed, Epoch: r.Sim.Epoch, Die: die,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", trace.ErrUnsupported, err)
	}
	return applications.Open(world, r.HangAfter)
}

// die simulates a crash.
func die(s syscall.Signal) {
	_ = syscall.Kill(os.Getpid(), s) // a signal to the own process cannot fail
	select {}
}

// openSource makes the source that a request names.
func openSource(r trace.Request, prepared string) (trace.Source, error) {
	return openOf(rows(), r, prepared)
}

func openOf(rows []row, r trace.Request, prepared string) (trace.Source, error) {
	var names []string
	for _, row := range rows {
		if row.name == r.Backend {
			return row.open(r, prepared)
		}
		names = append(names, fmt.Sprintf("%q", row.name))
	}
	return nil, fmt.Errorf("%w: backend %q is not %s", trace.ErrUnsupported, r.Backend, strings.Join(names, " or "))
}
