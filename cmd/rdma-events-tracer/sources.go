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

// backend has the source of one backend.
type backend struct {
	name string // the value of the option backend
	open func(r trace.Request, prepared string) (trace.Source, error)
}

// backends returns the sources of all backends.
func backends() []backend {
	return []backend{
		{verbs.BackendVerbs, openAttached},
		{verbs.BackendSim, openSimulated},
	}
}

// attachPrograms attaches the eBPF programs in the first execution of the tracer.
func attachPrograms(tracer.Settings) (tracer.Prepared, error) {
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

// openAttached opens the source of the programs that attachPrograms has attached.
func openAttached(r trace.Request, prepared string) (trace.Source, error) {
	if prepared == "" {
		return nil, fmt.Errorf("%w: the tracer was started without hooks", trace.ErrUnsupported)
	}
	p, err := ebpf.Adopt(prepared)
	if err != nil {
		return nil, err
	}
	return ebpf.Open(p, r.HangAfter)
}

// tryAttach attaches to the kernel, prints the result and detaches. It is for users and the doctor.
func tryAttach(out io.Writer) error {
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

func openSimulated(r trace.Request, _ string) (trace.Source, error) {
	world, err := devices.Load(devices.Options{
		Profile: r.Sim.Profile, Scenario: r.Sim.Scenario, Seed: r.Sim.Seed, Epoch: r.Sim.Epoch, Die: simulateCrash,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", trace.ErrUnsupported, err)
	}
	return applications.Open(world, r.HangAfter)
}

// simulateCrash simulates a crash.
func simulateCrash(s syscall.Signal) {
	_ = syscall.Kill(os.Getpid(), s) // a process may always signal itself
	select {}
}

// openSource opens the source for the backend of a request.
func openSource(r trace.Request, prepared string) (trace.Source, error) {
	return openFrom(backends(), r, prepared)
}

func openFrom(rows []backend, r trace.Request, prepared string) (trace.Source, error) {
	var names []string
	for _, row := range rows {
		if row.name == r.Backend {
			return row.open(r, prepared)
		}
		names = append(names, fmt.Sprintf("%q", row.name))
	}
	return nil, fmt.Errorf("%w: backend %q is not %s", trace.ErrUnsupported, r.Backend, strings.Join(names, " or "))
}
