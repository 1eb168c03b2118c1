//go:build linux && cgo

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ethtool"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/snapshot"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/sys/confine"
)

// answer runs f, which prints an answer to out, as confined as a worker is. It returns the exit
// status.
func answer(f func(out *os.File) error) int {
	out, err := enter()
	if err == nil {
		err = f(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// enter confines the process, and returns what was its standard output. From then on
// descriptor 1 is standard error, since native libraries print to it.
func enter() (out *os.File, err error) {
	loadMissingNodes()
	n := needs()
	n.Read = append(n.Read, worker.OnceReads()...)
	if err := confine.Enter(n); err != nil {
		return nil, fmt.Errorf("confine this process: %w", err)
	}
	fd, err := unix.FcntlInt(uintptr(unix.Stdout), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("keep standard output for the answer: %w", err)
	}
	if err := unix.Dup3(unix.Stderr, unix.Stdout, 0); err != nil {
		return nil, fmt.Errorf("point standard output to standard error: %w", err)
	}
	return os.NewFile(uintptr(fd), "answer"), nil
}

// evidence prints the snapshot of one device, for rdma-events report. A request, which is JSON,
// names another backend than verbs. The process ends with the device open, since to close it
// may hang, and the kernel does it.
func evidence(device, request string) int {
	return answer(func(out *os.File) error {
		r := verbs.Request{Backend: verbs.BackendVerbs}
		if request != "" {
			if err := json.Unmarshal([]byte(request), &r); err != nil {
				return fmt.Errorf("read request: %w", err)
			}
		}
		b, err := openBackend(r)
		if err != nil {
			return fmt.Errorf("make backend %q: %w", r.Backend, err)
		}
		led, shared, err := ledger.New("evidence")
		if err != nil {
			return err
		}
		t := snapshot.Taker{
			Device: device, Mono: clock.Monotonic, Out: out,
			Open: func() (verbs.Device, error) { return b.Open(device, led) },
		}
		if r.Backend == verbs.BackendVerbs {
			t.Kernel = sysfs.New("/sys")
		}
		err = t.Take()
		if errors.Is(err, snapshot.ErrLate) {
			return nil // its entry says so; the call still uses the ledger
		}
		return errors.Join(err, led.Close(), shared.Close())
	})
}

// link prints what the driver of a network device has about its link, for rdma-events doctor.
// The kernel's RTNL lock may keep this process for long.
func link(netdev string) int {
	return answer(func(out *os.File) error {
		l, err := ethtool.QueryLink(netdev)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(l)
	})
}
