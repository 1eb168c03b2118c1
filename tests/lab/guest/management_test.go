//go:build guest

package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const managementPort = 18700

// onHost calls a function on a thread in the namespace of a host. The thread returns to its own namespace afterwards: it may be the
// first thread of the process, which does not end with its goroutine, and /proc/self/net shows the namespace of that thread.
func onHost[T any](t *testing.T, host int, f func() (T, error)) T {
	t.Helper()
	type result struct {
		value T
		err   error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread()
		var r result
		own, err := os.Open("/proc/thread-self/ns/net")
		if err == nil {
			defer own.Close()
			err = enterNamespace(host)
		}
		if err == nil {
			r.value, err = f()
			err = errors.Join(err, unix.Setns(int(own.Fd()), unix.CLONE_NEWNET))
		}
		if err == nil {
			runtime.UnlockOSThread() // else no other goroutine gets the thread
		}
		r.err = err
		done <- r
	}()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.value
}

func enterNamespace(host int) error {
	ns, err := os.Open(filepath.Join("/run/netns", hostNamespace(host)))
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", ns.Name(), err)
	}
	return nil
}

// conversation is a TCP connection between two hosts.
type conversation struct {
	t            *testing.T
	caller, peer net.Conn
}

// newConversation opens a connection from host 1 to host 2.
func newConversation(t *testing.T, m *ManagementNetwork) *conversation {
	t.Helper()
	l := onHost(t, 2, func() (net.Listener, error) {
		return net.Listen("tcp4", fmt.Sprintf("%s:%d", m.Address(2), managementPort))
	})
	defer l.Close()
	caller := onHost(t, 1, func() (net.Conn, error) { return net.DialTimeout("tcp4", l.Addr().String(), 20*time.Second) })
	t.Cleanup(func() { _ = caller.Close() }) // it may be reset
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	return &conversation{t, caller, peer}
}

// arrives sends a byte from one end to the other and reports whether it comes within a time.
func (c *conversation) arrives(from, to net.Conn, within time.Duration) bool {
	c.t.Helper()
	if _, err := from.Write([]byte{1}); err != nil {
		c.t.Fatal(err)
	}
	return c.awaitByte(to, within)
}

func (c *conversation) awaitByte(to net.Conn, within time.Duration) bool {
	c.t.Helper()
	if err := to.SetReadDeadline(time.Now().Add(within)); err != nil {
		c.t.Fatal(err)
	}
	_, err := to.Read(make([]byte, 1))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatal(err)
	}
	return err == nil
}

// TestManagementNetworkFails tries each fault on a connection, and that healing ends it.
func TestManagementNetworkFails(t *testing.T) {
	m := AddManagementNetwork(t, 3)
	const soon, patience = time.Second, 40 * time.Second // TCP sends again after up to twice the time that a fault lasted
	for _, fault := range []struct {
		name        string
		begin       func()
		there, back bool // whether packets pass, from host 1 to 2 and the other way
	}{
		{"both hosts cut", func() { m.CutAll() }, false, false},
		{"host 2 cut", func() { m.Cut(2) }, false, false},
		{"host 3 cut", func() { m.Cut(3) }, true, true},
		{"host 2 unplugged", func() { m.Unplug(2) }, false, false},
	} {
		c := newConversation(t, m)
		fault.begin()
		for _, way := range []struct {
			name     string
			from, to net.Conn
			passes   bool
		}{{"there", c.caller, c.peer, fault.there}, {"back", c.peer, c.caller, fault.back}} {
			limit := soon
			if way.passes {
				limit = patience
			}
			if c.arrives(way.from, way.to, limit) != way.passes {
				t.Errorf("%s, %s: want passes = %v", fault.name, way.name, way.passes)
			}
		}
		m.Heal()
		if !fault.there && !c.awaitByte(c.peer, patience) || !fault.back && !c.awaitByte(c.caller, patience) {
			t.Errorf("%s: the bytes do not come after healing", fault.name)
		}
	}
}

// TestManagementNetworkIsCutInOneDirection requires that what a host sends still comes, though it hears nothing.
func TestManagementNetworkIsCutInOneDirection(t *testing.T) {
	m := AddManagementNetwork(t, 2)
	c := newConversation(t, m)
	m.CutTo(2)
	if !c.arrives(c.peer, c.caller, 20*time.Second) {
		t.Error("what host 2 sends does not come while only the way to it is cut")
	}
	if c.arrives(c.caller, c.peer, time.Second) {
		t.Error("a byte came to host 2, to which all is cut")
	}
	m.Heal()
	if !c.awaitByte(c.peer, 40*time.Second) {
		t.Error("the byte does not come after healing")
	}
}

// TestManagementNetworkIsSlow requires the round trip that was asked for, and none of it after healing.
func TestManagementNetworkIsSlow(t *testing.T) {
	m := AddManagementNetwork(t, 2)
	c := newConversation(t, m)
	const delay = time.Second
	roundTrip := func() time.Duration {
		began := time.Now()
		if !c.arrives(c.caller, c.peer, 20*time.Second) || !c.arrives(c.peer, c.caller, 20*time.Second) {
			t.Fatal("a byte does not come")
		}
		return time.Since(began)
	}
	m.Slow(delay)
	if took := roundTrip(); took < 2*delay || took > 20*delay {
		t.Errorf("want a round trip of %v, got %v", 2*delay, took)
	}
	m.Heal()
	if took := roundTrip(); took >= 2*delay {
		t.Errorf("want a fast round trip after healing, got %v", took)
	}
}

// TestManagementNetworkResetsAndRefuses requires that both ends of a connection have an error at once, and that a host which finds
// another one unreachable is told so.
func TestManagementNetworkResetsAndRefuses(t *testing.T) {
	m := AddManagementNetwork(t, 2)
	c := newConversation(t, m)
	if got := m.Connections(managementPort); len(got) != 1 || !got[Connection{1, 2, c.caller.LocalAddr().String()}] {
		t.Errorf("want the one connection from host 1 to 2, got %v", got)
	}
	m.Reset(managementPort)
	for name, end := range map[string]net.Conn{"caller": c.caller, "peer": c.peer} {
		if err := end.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, err := end.Read(make([]byte, 1))
		if !errors.Is(err, unix.ECONNABORTED) && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("the %s: want that the connection was reset, got %v", name, err)
		}
	}
	if got := m.Connections(managementPort); len(got) != 0 {
		t.Errorf("want no connection after the reset, got %v", got)
	}

	m.Refuse(1, 2)
	dial := func() (error, error) {
		conn, err := net.DialTimeout("tcp4", fmt.Sprintf("%s:%d", m.Address(2), managementPort), 20*time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err, nil
	}
	if err := onHost(t, 1, dial); !errors.Is(err, unix.EHOSTUNREACH) {
		t.Errorf("want that host 2 is unreachable, got %v", err)
	}
	m.Heal()
	if err := onHost(t, 1, dial); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("want that host 2 is reached and refuses, since nothing listens, got %v", err)
	}
}

// TestDevicesWorkFromTheNamespaceOfAHost runs a program of libibverbs at both ends: the programs exchange their addresses over the
// management network, and messages over the RDMA network.
func TestDevicesWorkFromTheNamespaceOfAHost(t *testing.T) {
	n, m := AddNetwork(t, 2), AddManagementNetwork(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := func(host int, program string, more ...string) *exec.Cmd {
		line := append(m.Enter(host), program, "-d", n.Device(host), "-g", n.GIDIndex(host), "-n", "20", "-p", strconv.Itoa(managementPort))
		line = append(line, more...)
		return exec.CommandContext(ctx, line[0], line[1:]...)
	}
	for _, program := range []string{"ibv_ud_pingpong", "ibv_rc_pingpong"} {
		before := n.Passed(n.To(2))
		server := run(2, program)
		var said strings.Builder
		server.Stdout, server.Stderr = &said, &said
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		Eventually(t, program+" listens", 10*time.Second, func() bool { return m.Listens(2, managementPort) })
		out, err := run(1, program, m.Address(2)).CombinedOutput()
		if err != nil {
			cancel()
		}
		if serverErr := server.Wait(); err != nil || serverErr != nil {
			t.Fatalf("%s: %v: %s; the server: %v: %s", program, err, out, serverErr, said.String())
		}
		after := n.Passed(n.To(2))
		if got := after[Datagrams].Packets + after[Writes].Packets - before[Datagrams].Packets - before[Writes].Packets; got < 20 {
			t.Errorf("%s: %d packets went by the RDMA network", program, got)
		}
		if tcp := after[Others].Packets - before[Others].Packets; tcp > 10 {
			t.Errorf("%s: %d packets of the RDMA network were no RoCE", program, tcp)
		}
	}
}
