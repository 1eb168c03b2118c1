//go:build guest

package inguest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/native"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/bench"
)

const (
	device = "rxe0"
	netdev = "d0"
	// turns is how often our value and the other are measured, in alternation.
	turns = 7
)

// report collects the results of the tests of this binary, which run one after the
// other.
var report bench.Report

func TestMain(m *testing.M) {
	code := m.Run()
	if err := report.Save(os.Getenv("BENCH_REPORT")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func addFigures(figures ...bench.Figure) { report.Figures = append(report.Figures, figures...) }

// programPath returns the path of a program from an environment variable that the harness sets.
func programPath(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s is not set; run: make bench", variable)
	}
	return path
}

func openDevice(t *testing.T) (verbs.Device, *ledger.Ledger) {
	t.Helper()
	led, f, err := ledger.New("bench")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	dev, err := native.New(sysfs.New("/sys")).Open(device, led)
	if err != nil {
		t.Fatal(err)
	}
	return dev, led
}

func closeDevice(t *testing.T, dev verbs.Device) {
	t.Helper()
	if err := dev.Close(10 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// besideBusyCore runs measure while another program keeps one of the two cores busy.
func besideBusyCore(t *testing.T, measure func()) {
	t.Helper()
	busy := exec.Command("sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatalf("start a program that keeps a core busy: %v", err)
	}
	defer func() {
		_ = busy.Process.Kill()
		_ = busy.Wait() // it was killed
	}()
	measure()
}

// line is a line of a program's output and the time when it was read.
type line struct {
	text string
	at   time.Time
}

// process is a program whose output is read line by line.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan line
	ended sync.WaitGroup
}

// startProcess starts a program, which runs until stop is called or the test ends.
func startProcess(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(name, args...), lines: make(chan line, 1<<16)}
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // for a test that fails before stop
	p.ended.Go(func() {
		defer close(p.lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			p.lines <- line{s.Text(), time.Now()}
		}
	})
	return p
}

// await returns the next line that contains text. It waits a minute at most.
func (p *process) await(text string) line {
	p.t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case l, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("%s ended before it said %q", p.cmd.Path, text)
			}
			if strings.Contains(l.text, text) {
				return l
			}
		case <-timeout:
			p.t.Fatalf("%s did not say %q within a minute", p.cmd.Path, text)
		}
	}
}

func (p *process) writeLine(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, text+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// stop ends the program as Telegraf would, by closing its standard input. kill is
// for programs that ignore the end of their input.
func (p *process) stop(kill bool) {
	p.t.Helper()
	_ = p.stdin.Close()
	if kill {
		_ = p.cmd.Process.Kill()
	}
	for range p.lines { // discard lines that no test needs
	}
	p.ended.Wait()
	if err := p.cmd.Wait(); err != nil && !kill {
		p.t.Fatalf("%s: %v", p.cmd.Path, err)
	}
}
