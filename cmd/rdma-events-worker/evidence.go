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

// runConfined confines the process as a worker is and runs f, which prints an answer to out. It
// returns the exit status.
func runConfined(f func(out *os.File) error) int {
	out, err := confineProcess()
	if err == nil {
		err = f(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// confineProcess confines the process, and returns its former standard output. Descriptor 1 then
// refers to standard error, since native libraries may print to it.
func confineProcess() (out *os.File, err error) {
	loadMissingNodes()
	n := libraryNeeds()
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

// printSnapshot prints the snapshot of one device, for rdma-events report. request is "" for the
// backend verbs, or a verbs.Request in JSON. The process exits with the device open: closing it may
// hang, and the kernel closes it anyway.
func printSnapshot(device, request string) int {
	return runConfined(func(out *os.File) error {
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
			return nil // the output reports it; the late call still uses the ledger, so it is not closed
		}
		return errors.Join(err, led.Close(), shared.Close())
	})
}

// printLink prints the link state that the driver of a network device reports, for rdma-events
// doctor. It may block for long on the kernel's RTNL lock.
func printLink(netdev string) int {
	return runConfined(func(out *os.File) error {
		l, err := ethtool.QueryLink(netdev)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(l)
	})
}
