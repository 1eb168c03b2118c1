package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The files by which a guest asks for what only its host can do (guest.Pause, guest.Unplug, guest.SetLink), and gets the answer.
const (
	requestFile = "request" // as in "stop 20s"
	answerFile  = "answer"  // an error, or nothing
)

// serveRequests carries out what the guest asks for, until ctx is done.
func (g *guest) serveRequests(ctx context.Context) {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		}
		text, err := os.ReadFile(g.file(requestFile))
		if err != nil {
			continue // there is none
		}
		answer := ""
		if err := errors.Join(os.Remove(g.file(requestFile)), g.carryOut(ctx, string(text))); err != nil {
			answer = err.Error()
		}
		// The guest waits for the file, and must not see it empty before it is written.
		written := g.file(answerFile + ".new")
		if err := os.WriteFile(written, []byte(answer), 0o644); err == nil {
			_ = os.Rename(written, g.file(answerFile))
		}
	}
}

// carryOut carries out a request: "stop" and "freeze" with a duration, "unplug" with the ID of a device, or "link up" and "link
// down" with the ID of a network device. "stop" is qemu's own stop and cont, which also hold the guest's clocks. "freeze" stops the
// process of qemu. The guest's TSC goes on meanwhile, as it does while KVM stops a guest. "unplug" asks the guest's kernel to let go of
// the device's slot.
func (g *guest) carryOut(ctx context.Context, request string) error {
	what, argument, _ := strings.Cut(request, " ")
	m, err := dialMonitor(ctx, g.monitor())
	if err != nil {
		return err
	}
	defer m.conn.Close()
	switch what {
	case "unplug":
		return m.executeCommand("device_del", map[string]any{"id": argument})
	case "link":
		state, id, _ := strings.Cut(argument, " ")
		if state != "up" && state != "down" {
			return fmt.Errorf("read request %q: %w", request, errors.ErrUnsupported)
		}
		return m.executeCommand("set_link", map[string]any{"name": id, "up": state == "up"})
	}
	d, err := time.ParseDuration(argument)
	if err != nil {
		return fmt.Errorf("read request %q: %w", request, err)
	}
	switch what {
	case "stop":
		if err := m.executeCommand("stop", nil); err != nil {
			return err
		}
		sleepContext(ctx, d)
		return m.executeCommand("cont", nil)
	case "freeze":
		pid, err := m.pid()
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return fmt.Errorf("stop qemu: %w", err)
		}
		sleepContext(ctx, d)
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			return fmt.Errorf("continue qemu: %w", err)
		}
		return nil
	}
	return fmt.Errorf("read request %q: %w", request, errors.ErrUnsupported)
}

func sleepContext(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// monitor is a connection to qemu's monitor, in the QEMU Machine Protocol (docs/interop/qmp-spec of QEMU).
type monitor struct {
	conn *net.UnixConn
	in   *bufio.Scanner
}

func dialMonitor(ctx context.Context, path string) (*monitor, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect to qemu's monitor: %w", err)
	}
	m := &monitor{conn: conn.(*net.UnixConn), in: bufio.NewScanner(conn)}
	if !m.in.Scan() {
		_ = conn.Close()
		return nil, fmt.Errorf("read greeting of qemu's monitor: %w", errors.Join(m.in.Err(), errNoAnswer))
	}
	if err := m.executeCommand("qmp_capabilities", nil); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return m, nil
}

var errNoAnswer = errors.New("no answer")

// executeCommand executes a command of QEMU. Events that come before its answer are left out.
func (m *monitor) executeCommand(command string, arguments map[string]any) error {
	line, err := json.Marshal(struct {
		Execute   string         `json:"execute"`
		Arguments map[string]any `json:"arguments,omitempty"`
	}{command, arguments})
	if err != nil {
		return fmt.Errorf("write command %s: %w", command, err)
	}
	if _, err := m.conn.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("ask qemu for %s: %w", command, err)
	}
	for m.in.Scan() {
		var answer struct {
			Return *json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := json.Unmarshal(m.in.Bytes(), &answer); err != nil {
			return fmt.Errorf("read answer of qemu to %s: %w", command, err)
		}
		if answer.Error != nil {
			return fmt.Errorf("qemu refused %s: %s", command, answer.Error.Desc)
		}
		if answer.Return != nil {
			return nil
		}
	}
	return fmt.Errorf("ask qemu for %s: %w", command, errors.Join(m.in.Err(), errNoAnswer))
}

// pid returns the process that listens at the socket.
func (m *monitor) pid() (int, error) {
	raw, err := m.conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("find qemu's process: %w", err)
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("find qemu's process: %w", err)
	}
	return int(peer.Pid), nil
}
