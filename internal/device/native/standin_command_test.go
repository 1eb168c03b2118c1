//go:build linux && cgo

package native_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
	facts "rdma_events/internal/device/drivers"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

func init() {
	drivers["asking"] = doAsking
	drivers["hung counter"] = doHungCounter
	drivers["hung query of a queue pair"] = doHungQueryQP
}

const counters = "sys/class/infiniband/standin0/ports/1/hw_counters"

// doAsking reads a counter and queries a queue pair, once each, and reports what was opened
// and called.
func doAsking(s *subject) error {
	dir := filepath.Join(s.root, counters)
	for _, name := range []string{"aborts", "lifespan", "drops"} {
		if err := standin.WriteFile(filepath.Join(dir, name), "10\n"); err != nil {
			return err
		}
	}
	_, err := s.openProbe(verbs.MethodRCWrite)
	if err != nil {
		return err
	}
	opened, err := watchOpenedFiles(dir, ".")
	if err != nil {
		return err
	}
	s.check("counter", s.dev.ReadCounter(1))
	s.check("queue pair", s.dev.QueryQP(1))
	s.report.Opened, err = opened()
	s.check("close", s.dev.Close(long))
	return err
}

func TestAskingMakesTheCallsOfTheTable(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "asking", LinkLayer: verbs.LinkEthernet, GIDIndex: -1})
	got := callCounts(r.Trace)
	require.Equal(t, facts.CheckingCalls("mlx5_core"), facts.CallCounts{facts.HWCounter: len(r.Opened)})
	require.Equal(t, "aborts", filepath.Base(r.Opened[0]), "a counter, and not its lifespan")
	require.Equal(t, facts.CheckingCalls("qede")[facts.QueryQP], got[facts.QueryQP])
}

// doHungCounter closes the device while the read of a counter hangs, and reports the ledger
// before the close.
func doHungCounter(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	counter := filepath.Join(s.root, counters, "drops")
	if err := errors.Join(os.MkdirAll(filepath.Dir(counter), 0o755), unix.Mkfifo(counter, 0o600)); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.dev.ReadCounter(1) }()
	for begun := time.Now(); s.report.Evidence.Call != ledger.CallReadSysfs && time.Since(begun) < long; {
		_, s.report.Evidence = s.led.ControlCalls()
	}
	_, err := os.Stat(filepath.Join("/proc/self/task", strconv.Itoa(s.report.Evidence.Thread)))
	s.check("thread", err)
	begun := time.Now()
	s.check("close", s.dev.Close(long))
	s.report.Took = time.Since(begun)
	w, err := os.OpenFile(counter, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	s.check("release", w.Close())
	s.check("read", <-ended)
	if _, after := s.led.ControlCalls(); after.Call != ledger.CallNone {
		s.check("ledger", errors.New("the call is in the ledger after its end"))
	}
	s.check("after close", s.dev.ReadCounter(1))
	return nil
}

func TestACloseWaitsForNoCounter(t *testing.T) {
	r := carryOut(t, order{Kind: "hung counter"})
	require.Equal(t, ledger.CallReadSysfs, r.Evidence.Call)
	require.Equal(t, 1, r.Evidence.Port)
	require.Less(t, r.Took, long)
	require.Contains(t, r.Errors["after close"].Is, "closed")
	delete(r.Errors, "after close")
	require.Empty(t, r.Errors)
}

// doHungQueryQP nudges and closes a probe while the query of its queue pair hangs.
func doHungQueryQP(s *subject) error {
	p, err := s.openProbe(verbs.MethodRCWrite)
	if err != nil {
		return err
	}
	s.HangCall = int32(ledger.CallQueryQP)
	ended := make(chan error, 1)
	go func() { ended <- s.dev.QueryQP(1) }()
	s.check("entered", s.entered())
	_, s.report.Evidence = s.led.ControlCalls()
	_, err = p.Round(0)
	s.check("round", err)
	p.Nudge()
	s.check("close probe", p.Close(missed))
	s.check("release", s.release())
	s.check("query", <-ended)
	s.check("close", s.dev.Close(long))
	return nil
}

// The queue pair must not be destroyed meanwhile: the kernel would refuse that.
func TestAQueuePairThatIsQueriedIsNotDestroyed(t *testing.T) {
	r := carryOut(t, order{Kind: "hung query of a queue pair", LinkLayer: verbs.LinkEthernet, GIDIndex: -1})
	require.Equal(t, ledger.CallQueryQP, r.Evidence.Call)
	require.Equal(t, 1, r.Evidence.Port)
	require.Positive(t, r.Evidence.Thread)
	require.Contains(t, r.Errors["close probe"].Is, "stuck")
	delete(r.Errors, "close probe")
	require.Empty(t, r.Errors)
	require.Empty(t, r.Violation)
}
