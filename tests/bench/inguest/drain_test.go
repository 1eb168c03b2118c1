//go:build guest

package inguest

import (
	"bufio"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/tests/bench"
	"rdma_events/tests/lab/guest"
)

// queued is the number of events that are queued for each reader. The last lines
// of ibv_asyncwatch stay in its buffer, so it is timed up to line printable.
const (
	queued    = 200_000
	printable = queued - 2000
)

// drainProfile explains why our reader takes longer than a program with one
// thread.
const drainProfile = "program counters of the stopped machine, 3,400 to 3,900 a reader, have 0.18 us of 2.03 more an event: 0.06 " +
	"the kernel's, which counts references to the file of each read as soon as there is a second thread, and a Go program always " +
	"has several; 0.05 the C library's, whose read is a point of cancellation then; and 0.05 our own (0.11 against 0.06), for the " +
	"count, the call and the time of each event in the ledger, which outlives the worker. Beside a second thread, asleep, the C " +
	"loop has the first two as well"

// TestDrain queues the same events for four readers, each with its own context,
// and lets the readers read them one after the other.
func TestDrain(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	c := bench.Figure{
		Section: "Asynchronous events", What: "drain of 200,000 queued events", Unit: "events/s", OtherIs: "C loop",
		Bound: 1, AtLeast: true, Within: true,
		Missed: drainProfile,
	}
	threads := c
	threads.OtherIs, threads.Missed = "C loop beside a second thread, asleep", ""
	peer := c
	peer.Missed = "ibv_asyncwatch has one thread, as the C loop has, which is at 3.0 to 3.3. Against that one " + drainProfile
	peer.OtherIs, peer.Bound, peer.Within = "ibv_asyncwatch", 3, false
	peer.Note = "ibv_asyncwatch prints into a pipe, fully buffered, and is stopped while the events queue up"
	allocs := bench.Figure{
		Section: "Asynchronous events", What: "memory allocations of the reader in that drain", Unit: "per event",
	}
	for i := range turns {
		d := drainTurn(t, i)
		c.Ours, c.Other = append(c.Ours, d.ours), append(c.Other, d.loop)
		threads.Ours, threads.Other = append(threads.Ours, d.ours), append(threads.Other, d.threads)
		peer.Ours, peer.Other = append(peer.Ours, d.ours), append(peer.Other, d.watch)
		allocs.Ours = append(allocs.Ours, d.mallocs)
		besideBusyCore(t, func() { d = drainTurn(t, i) })
		c.BusyOurs, c.BusyOther = append(c.BusyOurs, d.ours), append(c.BusyOther, d.loop)
		threads.BusyOurs, threads.BusyOther = append(threads.BusyOurs, d.ours), append(threads.BusyOther, d.threads)
		peer.BusyOurs, peer.BusyOther = append(peer.BusyOurs, d.ours), append(peer.BusyOther, d.watch)
	}
	addFigures(c, threads, peer, allocs)
}

// drained has the events per second of each reader, and our allocations per event.
type drained struct{ ours, loop, threads, watch, mallocs float64 }

func drainTurn(t *testing.T, turn int) (d drained) {
	t.Helper()
	dev, _ := openDevice(t)
	defer closeDevice(t, dev)
	loop := startProcess(t, programPath(t, "ASYNCDRAIN_BIN"), device, strconv.Itoa(queued))
	loop.await("ready")
	threads := startProcess(t, programPath(t, "ASYNCDRAIN_BIN"), device, strconv.Itoa(queued), "threads")
	threads.await("ready")
	w := startWatch(t)
	guest.Inject(t, device, guest.PKeyChange, 1, queued)
	// The order rotates, so that no reader is always first or always last.
	order := []func(){
		func() { d.ours, d.mallocs = drainEvents(t, dev) },
		func() { d.loop = loop.drained() },
		func() { d.watch = w.drain() },
		func() { d.threads = threads.drained() },
	}
	for i := range order {
		order[(turn+i)%len(order)]()
	}
	loop.stop(false)
	threads.stop(false)
	return d
}

// drainEvents reads the queued events as the worker's reader does.
func drainEvents(t *testing.T, dev verbs.Device) (rate, mallocs float64) {
	t.Helper()
	runs := make([]verbs.Run, 256)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	for taken := uint64(0); taken < queued; {
		n, err := dev.ReadEvents(runs, 0)
		if err != nil || n == 0 {
			t.Fatalf("after %d events: %d runs, %v", taken, n, err)
		}
		for _, r := range runs[:n] {
			taken += r.Count
		}
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	return queued / took.Seconds(), float64(after.Mallocs-before.Mallocs) / queued
}

func (p *process) drained() float64 {
	p.t.Helper()
	p.writeLine("go")
	var count, ns float64
	text := p.await("drained").text
	if _, err := fmt.Sscanf(text, "drained %f %f", &count, &ns); err != nil {
		p.t.Fatalf("parse %q: %v", text, err)
	}
	return count / ns * 1e9
}

// asyncWatch is an ibv_asyncwatch process, which is stopped until drain.
type asyncWatch struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Reader
}

func startWatch(t *testing.T) *asyncWatch {
	t.Helper()
	cmd := exec.Command("stdbuf", "-o64K", "ibv_asyncwatch", "-d", device)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start ibv_asyncwatch: %v", err)
	}
	w := &asyncWatch{t: t, cmd: cmd, out: bufio.NewReaderSize(stdout, 1<<16)}
	guest.Eventually(t, "ibv_asyncwatch has its queue of events", 20*time.Second, func() bool {
		return hasOpen(cmd.Process.Pid, "[infinibandevent]")
	})
	w.signal(syscall.SIGSTOP)
	return w
}

func (w *asyncWatch) signal(s syscall.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

func (w *asyncWatch) drain() (rate float64) {
	w.t.Helper()
	defer time.AfterFunc(time.Minute, func() { _ = w.cmd.Process.Kill() }).Stop()
	began := time.Now()
	w.signal(syscall.SIGCONT)
	for range printable {
		if _, err := w.out.ReadSlice('\n'); err != nil {
			w.t.Fatalf("read from ibv_asyncwatch: %v", err)
		}
	}
	took := time.Since(began)
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
	return printable / took.Seconds()
}
