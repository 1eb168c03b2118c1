//go:build guest

package fabric

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
)

// forger is a hostile program on a device (forger/forger.c).
type forger struct {
	t       *testing.T
	lines   *os.File
	answers *bufio.Scanner
	udQP    uint32
	rcQP    uint32
	qkey    uint32
	gid     string
}

// forged is what the forger answers: its counts since its start, the last datagram received and the status of the last completion
// of its reliable connection.
type forged struct {
	sent, received int
	last           []byte
	status         string
}

func startForger(t *testing.T, n *guest.Network, host int) *forger {
	t.Helper()
	theirIn, lines, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Getenv("LAB_FORGER"), n.Device(host), n.GIDIndex(host))
	cmd.Stdin, cmd.Stderr = theirIn, os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	_ = theirIn.Close() // the program has it
	if err != nil {
		t.Fatal(err)
	}
	f := &forger{t: t, lines: lines, answers: bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = lines.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("forger: %v", err)
		}
	})
	f.answers.Scan()
	if _, err := fmt.Sscanf(f.answers.Text(), "me %d %d %x %s", &f.udQP, &f.rcQP, &f.qkey, &f.gid); err != nil {
		t.Fatalf("forger on %s says %q: %v", n.Device(host), f.answers.Text(), err)
	}
	return f
}

// do sends a line and returns the answer.
func (f *forger) do(format string, values ...any) (a forged) {
	f.t.Helper()
	line := fmt.Sprintf(format, values...)
	if _, err := f.lines.WriteString(line + "\n"); err != nil {
		f.t.Fatal(err)
	}
	if !f.answers.Scan() {
		f.t.Fatalf("%s: the forger has ended", line)
	}
	var last string
	answer, status, _ := strings.Cut(f.answers.Text(), " status=")
	if _, err := fmt.Sscanf(answer, "ok sent=%d received=%d last=%s", &a.sent, &a.received, &last); err != nil {
		f.t.Fatalf("%s: %s", line, f.answers.Text())
	}
	a.last, _ = hex.DecodeString(last) // "-" before the first
	a.status = status
	return a
}

// send sends copies of a datagram to a queue pair of the host with a GID, one at a time with a pause after each.
func (f *forger) send(count int, pause time.Duration, gid string, qp, qkey uint32, bytes []byte) {
	f.t.Helper()
	f.do("send %d %d %s %d %x %x", count, pause.Microseconds(), gid, qp, qkey, bytes)
}

// sendProbes is like send, with the number of the probe raised by one each time.
func (f *forger) sendProbes(count int, pause time.Duration, gid string, qp, qkey uint32, first []byte) {
	f.t.Helper()
	f.do("count %d %d %s %d %x %x", count, pause.Microseconds(), gid, qp, qkey, first)
}

// received waits for what is under way, and returns what has come since the start.
func (f *forger) received() forged {
	f.t.Helper()
	return f.do("take 1000")
}
