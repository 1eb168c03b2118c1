//go:build linux && cgo

package native_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// doHungProbe does a round and closes the probe and the device. One of the library's
// calls never returns.
func doHungProbe(s *subject) error {
	p, err := s.openProbe(verbs.MethodUDSend)
	if err != nil {
		return err
	}
	if s.Hang == ledger.CallAckCQEvents {
		s.IgnoreAcks = 1 // so the destroy waits, as the real one does
	} else {
		s.HangCall = int32(s.Hang)
	}
	switch s.Hang {
	case ledger.CallPostSend, ledger.CallCreateAH, ledger.CallDestroyAH:
		go func() { _, _ = p.Round(0) }()
		s.check("entered", s.entered())
	default:
		_, err = p.Round(0)
		s.check("round", err)
	}
	begun := time.Now()
	if s.Hang != ledger.CallCloseDevice {
		s.check("close probe", p.Close(missed))
	}
	s.check("close", s.dev.Close(missed))
	s.report.Took = time.Since(begun)
	s.readLedger()
	return nil
}

func TestACloseThatTheLibraryHoldsIsGivenUpAtItsDeadline(t *testing.T) {
	for hang, busy := range map[ledger.Call]ledger.Call{
		ledger.CallAckCQEvents:        ledger.CallDestroyCQ,
		ledger.CallPostSend:           ledger.CallPostSend,
		ledger.CallDestroyQP:          ledger.CallDestroyQP,
		ledger.CallDestroyAH:          ledger.CallDestroyAH,
		ledger.CallDeregMR:            ledger.CallDeregMR,
		ledger.CallDestroyCQ:          ledger.CallDestroyCQ,
		ledger.CallDestroyCompChannel: ledger.CallDestroyCompChannel,
		ledger.CallDeallocPD:          ledger.CallDeallocPD,
		ledger.CallCloseDevice:        ledger.CallCloseDevice,
	} {
		t.Run(hang.String(), func(t *testing.T) {
			t.Parallel()
			r := carryOut(t, order{Kind: "hung probe", Hang: hang, GIDIndex: -1, PKeyIndex: -1})
			want := []string{"close", "close probe"}
			if hang == ledger.CallCloseDevice {
				want = want[:1]
			}
			require.Len(t, r.Errors, len(want))
			for _, call := range want {
				require.Equal(t, []string{"stuck"}, r.Errors[call].Is, call)
			}
			require.Equal(t, busy, r.Busy.Call)
			require.GreaterOrEqual(t, r.Took, missed)
			require.Less(t, r.Took, long)
			if hang == ledger.CallAckCQEvents {
				require.Equal(t, "destroy_cq with 1 events unacknowledged", r.Violation)
			}
		})
	}
}

// doLateProbe closes the device while one of its probes is being created.
func doLateProbe(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	s.HangCall = int32(ledger.CallCreateQP)
	made, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.probe(verbs.MethodRCWrite)
		made <- err
	}()
	s.check("entered", s.entered())
	go func() { closed <- s.dev.Close(long) }()
	for err := error(nil); !errors.Is(err, verbs.ErrClosed); { // Close has begun
		_, err = s.dev.QueryPort(1)
	}
	s.check("release", s.release())
	s.check("probe", <-made)
	s.check("close", <-closed)
	return nil
}

func TestAProbeThatIsMadeWhileItsDeviceClosesIsDestroyed(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "late probe", GIDIndex: -1, PKeyIndex: -1})
	verbs := calledVerbs(r.Trace)
	for _, verb := range []string{"destroy_qp", "destroy_cq", "close_device"} {
		require.Equal(t, 1, strings.Count(verbs, " "+verb+" "), "%s in %s", verb, verbs)
	}
}

// doHungQuery makes a query of the port hang, and starts another one after it.
func doHungQuery(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	s.HangCall = int32(ledger.CallQueryPort)
	query := func(done chan<- struct{}) {
		_, _ = s.dev.QueryPort(1)
		close(done)
	}
	go query(make(chan struct{}))
	if err := s.entered(); err != nil {
		return err
	}
	second := make(chan struct{})
	go query(second)
	select {
	case <-second: // it would have overwritten the thread state of the first
	case <-time.After(missed):
	}
	s.readLedger()
	s.check("close", s.dev.Close(missed))
	return nil
}

func TestAQueryThatHangsIsSeenThoughOthersCome(t *testing.T) {
	r := carryOut(t, order{Kind: "hung query"})
	require.Equal(t, ledger.CallQueryPort, r.Busy.Call)
	require.Equal(t, []string{"stuck"}, r.Errors["close"].Is)
}

// doLateWrite closes a probe whose queue pair cannot be destroyed. The device then
// writes into its receives once more.
func doLateWrite(s *subject) error {
	p, err := s.openProbe(verbs.MethodUDSend)
	if err != nil {
		return err
	}
	s.FailErrno, s.FailCall = int32(unix.EBUSY), int32(ledger.CallDestroyQP)
	s.check("close probe", p.Close(long))
	s.check("close", s.dev.Close(long))
	return nil
}

func TestReceivesOutliveAQueuePairThatIsNotDestroyed(t *testing.T) {
	r := carryOut(t, order{Kind: "late write", GIDIndex: -1, PKeyIndex: -1})
	require.Empty(t, r.Violation)
	require.Contains(t, calledVerbs(r.Trace), " close_device ")
	require.Len(t, r.Errors, 1)
	require.Contains(t, r.Errors["close probe"].Text, "ibv_destroy_qp")
}
