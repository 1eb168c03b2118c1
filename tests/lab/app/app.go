//go:build guest

package app

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/tests/lab/guest"
)

// patience is how long an answer may take. The program itself gives up what it waits for after ten seconds.
const patience = 40 * time.Second

// App is one process. Its methods are for one goroutine, return when what they say has been done, and fail t otherwise.
type App struct {
	device  string
	cmd     *exec.Cmd
	lines   *os.File
	answers *os.File
	read    *bufio.Reader
	waited  bool
	counts  Counts
}

// Counts are the program's own, since its start.
type Counts struct {
	PID              int                     // of the process that answered, which may be a child
	QP               int                     // number of its queue pair; 0: it has none
	Read             int                     // asynchronous events
	Acked            int                     // of these
	Held             int                     // of these, not acknowledged yet
	Completions      int                     // completion events read
	CompletionsAcked int                     // of these
	Destroying       int                     // threads that destroy an object
	Types            map[verbs.EventType]int // asynchronous events read, by type
}

// Start starts a process that has the device open, with a queue pair, a completion queue and a shared receive queue, of which
// none uses another. The process is killed at the end of the test.
func Start(t testing.TB, device string) *App {
	t.Helper()
	a := Launch(t)
	a.Open(t, device)
	return a
}

// Launch is Start without the device.
func Launch(t testing.TB) *App {
	t.Helper()
	guest.RequireGuest(t)
	theirIn, lines, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	a := &App{cmd: exec.Command(os.Getenv("LAB_APPS")), lines: lines, answers: answers, read: bufio.NewReader(answers)}
	a.cmd.Stdin, a.cmd.Stdout, a.cmd.Stderr = theirIn, theirOut, os.Stderr
	err = a.cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close() // the program has them
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Kill(t)
		_, _ = lines.Close(), answers.Close()
	})
	return a
}

// PID returns the number of the process.
func (a *App) PID() int { return a.cmd.Process.Pid }

// Device returns the name of the device.
func (a *App) Device() string { return a.device }

// Counts returns the counts of the last answer.
func (a *App) Counts() Counts { return a.counts }

// Open opens a device.
func (a *App) Open(t testing.TB, device string) {
	t.Helper()
	a.do(t, "open %s", device)
	a.device = device
}

// Close destroys what the process has and closes the device.
func (a *App) Close(t testing.TB) {
	t.Helper()
	a.do(t, "close")
}

// Number returns the number of the process's object, as `rdma resource show` has it. kind is qp, cq or srq.
func (a *App) Number(t testing.TB, kind string) int {
	t.Helper()
	if kind == "qp" {
		return a.counts.QP
	}
	var newest int
	for _, o := range guest.Resources(t, kind, a.device) {
		// The kernel numbers objects upwards. The first completion queue is that of the queue pair.
		if pid, ok := o["pid"].(float64); ok && int(pid) == a.PID() {
			number, _ := o[kind+"n"].(float64)
			newest = max(newest, int(number))
		}
	}
	if newest == 0 {
		t.Fatalf("process %d has no %s on %s", a.PID(), kind, a.device)
	}
	return newest
}

// Inject makes the kernel deliver events of a type to the object that they are about, as a driver would. It returns the
// number of that when all are in the process' queue.
func (a *App) Inject(t testing.TB, typ verbs.EventType, count int) (number int) {
	t.Helper()
	kind := typ.Scope().String()
	number = a.Number(t, kind)
	guest.InjectNumber(t, a.device, kind, number, int(typ), count)
	return number
}

// Read reads and acknowledges asynchronous events, for which it waits. 0: all that are there.
func (a *App) Read(t testing.TB, count int) {
	t.Helper()
	a.do(t, "read %d ack", count)
}

// Listen makes a thread read and acknowledge what comes, and wait in read(2) for it.
func (a *App) Listen(t testing.TB) {
	t.Helper()
	a.do(t, "listen")
}

// Hold is Read without acknowledging.
func (a *App) Hold(t testing.TB, count int) {
	t.Helper()
	a.do(t, "read %d hold", count)
}

// Acknowledge acknowledges asynchronous events that Hold has left, the oldest first. 0: all.
func (a *App) Acknowledge(t testing.TB, count int) {
	t.Helper()
	a.do(t, "acknowledge events %d", count)
}

// Complete causes completions and reads the event of each.
func (a *App) Complete(t testing.TB, count int) {
	t.Helper()
	a.do(t, "complete %d ack", count)
}

// HoldCompletions is Complete without acknowledging.
func (a *App) HoldCompletions(t testing.TB, count int) {
	t.Helper()
	a.do(t, "complete %d hold", count)
}

// AcknowledgeCompletions acknowledges completion events that HoldCompletions has left. 0: all.
func (a *App) AcknowledgeCompletions(t testing.TB, count int) {
	t.Helper()
	a.do(t, "acknowledge completions %d", count)
}

// Overflow causes more completions than the completion queue has space for, so that so many events of type cq_err come.
// They may come later. Not with siw.
func (a *App) Overflow(t testing.TB, count int) {
	t.Helper()
	a.do(t, "overflow %d", count)
}

// Limit makes the shared receive queue reach its limit, so that one event of that comes. It may come later. Not with siw.
func (a *App) Limit(t testing.TB) {
	t.Helper()
	a.do(t, "limit")
}

// Fail moves the queue pair to the state error.
func (a *App) Fail(t testing.TB) {
	t.Helper()
	a.do(t, "fail")
}

// Destroy begins to destroy the object of a kind (qp, cq, srq) in a thread of its own and returns the thread's number. The
// kernel has destroyed the object when Destroy returns. Counts has whether the thread waits.
func (a *App) Destroy(t testing.TB, kind string) (thread int) {
	t.Helper()
	thread, err := a.ask(t, "destroy "+kind)
	if err != nil {
		t.Fatal(err)
	}
	return thread
}

// Join waits for the threads of Destroy.
func (a *App) Join(t testing.TB) {
	t.Helper()
	a.do(t, "join")
}

// Fork forks a child that has all that is open, and returns its number. The child lives as long as its parent, or until
// InChild ends it.
func (a *App) Fork(t testing.TB) (pid int) {
	t.Helper()
	a.do(t, "fork")
	own := a.counts
	a.do(t, "child rename child")
	pid, a.counts = a.counts.PID, own
	return pid
}

// ReadInChild is Read by the child. Its counts have the child's, which begin with those of its parent at the Fork.
func (a *App) ReadInChild(t testing.TB, count int) Counts {
	t.Helper()
	own := a.counts
	a.do(t, "child read %d ack", count)
	theirs := a.counts
	a.counts = own
	return theirs
}

// Daemonize ends the process. A child goes on in its place with all that is open, until the end of the test, and obeys the other
// methods; PID is still the number of the process that has ended.
func (a *App) Daemonize(t testing.TB) {
	t.Helper()
	a.do(t, "daemon")
	a.wait(t)
}

// EndChild ends the child.
func (a *App) EndChild(t testing.TB) {
	t.Helper()
	own := a.counts
	a.do(t, "child exit")
	a.counts = own
}

// Rename gives the process another name.
func (a *App) Rename(t testing.TB, name string) {
	t.Helper()
	a.do(t, "rename %s", name)
}

// Hang makes the process do nothing any more.
func (a *App) Hang(t testing.TB) {
	t.Helper()
	a.do(t, "hang")
}

// Crash ends the process by SIGSEGV.
func (a *App) Crash(t testing.TB) {
	t.Helper()
	a.send(t, "crash")
	if s := a.wait(t); s.Signal() != syscall.SIGSEGV {
		t.Fatalf("want an end by SIGSEGV, got %v", s)
	}
}

// Exit ends the process, which cleans up nothing. It does not wait for the child of Daemonize.
func (a *App) Exit(t testing.TB) {
	t.Helper()
	a.do(t, "exit")
	if a.waited {
		return
	}
	if s := a.wait(t); s.ExitStatus() != 0 {
		t.Fatalf("want exit status 0, got %v", s)
	}
}

// Kill ends the process, whatever it does. It may have ended.
func (a *App) Kill(t testing.TB) {
	t.Helper()
	if a.waited {
		return
	}
	if err := a.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	a.wait(t)
}

func (a *App) wait(t testing.TB) syscall.WaitStatus {
	t.Helper()
	a.waited = true
	var exit *exec.ExitError
	if err := a.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return a.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// do sends a line that the program must not refuse.
func (a *App) do(t testing.TB, format string, values ...any) {
	t.Helper()
	if _, err := a.ask(t, fmt.Sprintf(format, values...)); err != nil {
		t.Fatal(err)
	}
}

// ask sends a line and takes the answer, which has the number of a thread if one was started.
func (a *App) ask(t testing.TB, line string) (thread int, err error) {
	t.Helper()
	a.send(t, line)
	answer := a.receive(t, line)
	if number, ok := strings.CutPrefix(answer, "thread "); ok {
		if thread, err = strconv.Atoi(number); err != nil {
			t.Fatalf("%s: %q", line, answer)
		}
		answer = a.receive(t, line)
	}
	counts, ok := strings.CutPrefix(answer, "ok ")
	if !ok {
		return thread, fmt.Errorf("%s: %s", line, answer)
	}
	a.counts = parseCounts(t, counts)
	return thread, nil
}

func (a *App) send(t testing.TB, line string) {
	t.Helper()
	if _, err := a.lines.WriteString(line + "\n"); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
}

func (a *App) receive(t testing.TB, line string) string {
	t.Helper()
	if err := a.answers.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	answer, err := a.read.ReadString('\n')
	if err != nil {
		t.Fatalf("%s: no answer: %v", line, err)
	}
	return strings.TrimSpace(answer)
}

// parseCounts parses the counts in an answer of the application, without the leading ok.
func parseCounts(t testing.TB, text string) Counts {
	t.Helper()
	c := Counts{Types: map[verbs.EventType]int{}}
	if _, err := fmt.Sscanf(text, "pid=%d qp=%d read=%d acked=%d held=%d completions=%d completions_acked=%d destroying=%d",
		&c.PID, &c.QP, &c.Read, &c.Acked, &c.Held, &c.Completions, &c.CompletionsAcked, &c.Destroying); err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	_, types, _ := strings.Cut(text, "types=") // which may be empty
	for pair := range strings.SplitSeq(types, ",") {
		if pair == "" {
			continue
		}
		var typ verbs.EventType
		var n int
		if _, err := fmt.Sscanf(pair, "%d:%d", &typ, &n); err != nil {
			t.Fatalf("parse %q: %v", text, err)
		}
		c.Types[typ] = n
	}
	return c
}
