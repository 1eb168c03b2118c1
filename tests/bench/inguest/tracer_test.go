//go:build guest

package inguest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"rdma_events/internal/applications/ebpf"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/bench"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

const tracerSection = "Tracer"

// TestTracerBesideProbes measures what the tracer costs a program that waits for completions. None of its hooks is where
// these pass.
func TestTracerBesideProbes(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	const tracerTurns = 21 // it takes seconds to attach here
	a, _ := openDevice(t)
	defer closeDevice(t, a)
	f := bench.Figure{
		Section: tracerSection, What: "ud_send, wake p50, back to back, beside the tracer", Unit: "us", OtherIs: "without it",
		Bound: 1.02, Note: "kprobes, asynchronous events and hangs; 8,000 rounds a turn",
	}
	for i := range tracerTurns {
		inTurn(i, func() {
			stop := traceAll(t)
			f.Ours = append(f.Ours, measureDirect(t, verbs.MethodUDSend, 8000).p50/1e3)
			stop()
		}, func() {
			f.Other = append(f.Other, measureDirect(t, verbs.MethodUDSend, 8000).p50/1e3)
		})
	}
	addFigures(f)
}

// traceAll traces all processes until it is stopped.
func traceAll(t *testing.T) (stop func()) {
	t.Helper()
	programs, err := ebpf.Load()
	if err != nil {
		t.Fatal(err)
	}
	source, err := ebpf.Open(programs, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		for {
			if _, err := source.Next(t.Context()); err != nil {
				done <- err
				return
			}
		}
	}()
	return func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, trace.ErrClosed) {
			t.Error(err)
		}
	}
}

// TestTracerIdle measures the tracer of a host where nothing happens.
func TestTracerIdle(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	p := startPlugin(t, "[[inputs.rdma_events]]\n  [inputs.rdma_events.applications]\n    events = true\n")
	defer p.stop(false)
	awaitAttached(p)
	tracer := tracerOf(t, p.cmd.Process.Pid)
	<-time.After(25 * time.Second) // it gives back the memory of its start after 5 s
	var cpu bench.Figure
	cpu.Section, cpu.What, cpu.Unit, cpu.Bound = tracerSection, "CPU of the tracer, idle", "% of a core", 0.03
	cpu.Missed = "the cores are emulated, some fifteen times slower than real ones; the tracer reads no map while nothing happens, and Go's timers remain"
	for range 3 {
		const over, interval = 30 * time.Second, 10 * time.Second
		before, err := bench.CPUTime([]int{tracer})
		if err != nil {
			t.Fatal(err)
		}
		for range over / interval {
			<-time.After(interval)
			p.writeLine("") // as Telegraf asks at its interval
		}
		after, err := bench.CPUTime([]int{tracer})
		if err != nil {
			t.Fatal(err)
		}
		cpu.Ours = append(cpu.Ours, 100*float64(after-before)/float64(over))
	}
	rss, _ := processMemory(t, []int{tracer})
	addFigures(cpu, bench.Figure{
		Section: tracerSection, What: "tracer, RSS", Unit: "MiB", Ours: rss, Bound: 16,
	}, bench.Figure{
		Section: tracerSection, What: "its maps in the kernel", Unit: "MiB", Ours: []float64{memoryOfMaps(t)}, Bound: 7,
	})
}

// awaitAttached asks for metrics until the tracer is attached, which takes seconds here: it says so at intervals alone.
func awaitAttached(p *process) {
	p.t.Helper()
	for range 60 {
		p.writeLine("")
		if strings.Contains(p.await("rdma_tracer").text, "attached=1i") {
			return
		}
		<-time.After(time.Second)
	}
	p.t.Fatal("the tracer is not attached after a minute")
}

// tracerOf returns the tracer of a plugin.
func tracerOf(t *testing.T, plugin int) int {
	t.Helper()
	for _, pid := range rig.Children(t, plugin) {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil && strings.HasPrefix(string(comm), "rdma-ev-tracer") {
			return pid
		}
	}
	t.Fatal("the plugin has no tracer")
	return 0
}

// memoryOfMaps returns what the kernel says of the memory of a tracer's maps, in MiB. A tracer has not all of them open: its
// programs have.
func memoryOfMaps(t *testing.T) float64 {
	t.Helper()
	programs, err := ebpf.Load()
	if err != nil {
		t.Fatal(err)
	}
	if err := programs.Close(); err != nil {
		t.Fatal(err)
	}
	return float64(programs.MapMemory()) / (1 << 20)
}
