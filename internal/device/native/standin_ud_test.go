//go:build linux && cgo

package native_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// callsTo returns the calls of the given verbs in a trace.
func callsTo(trace []string, verbs ...string) []string {
	var list []string
	for _, line := range trace {
		name, _, _ := strings.Cut(line, " ")
		if slices.Contains(verbs, name) {
			list = append(list, name)
		}
	}
	return list
}

// On RoCE, an address that is deleted and added again while a handle exists gets another
// index.
func TestAddressIsHeldDuringRoundsOnly(t *testing.T) {
	held := []string{"query_gid", "create_ah", "post_send", "destroy_ah"}
	tried := []string{"query_gid", "create_ah", "destroy_ah"}
	for _, c := range []struct {
		name string
		o    order
		want []string
	}{
		{"RoCE", order{LinkLayer: verbs.LinkEthernet}, slices.Concat(tried, held, held)},
		{"InfiniBand, where none moves", order{LinkLayer: verbs.LinkInfiniBand}, []string{"create_ah", "post_send", "post_send", "destroy_ah"}},
		{"EFA, where it is a command", order{NoLayer: true}, []string{"query_gid", "create_ah", "post_send", "post_send", "destroy_ah"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.o.Kind, c.o.Method, c.o.Rounds, c.o.GIDIndex, c.o.PKeyIndex = "rounds", verbs.MethodUDSend, 2, -1, -1
			r := mustCarryOut(t, c.o)
			require.Equal(t, []verbs.Outcome{verbs.OutcomeSuccess, verbs.OutcomeSuccess}, roundOutcomes(r))
			require.Equal(t, c.want, callsTo(r.Trace, "query_gid", "create_ah", "post_send", "destroy_ah"))
		})
	}
}

func TestLostDatagramIsSentAgain(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "rounds", Method: verbs.MethodUDSend, Rounds: 2, Plan: "- ce", Timeout: time.Second, GIDIndex: -1, PKeyIndex: -1})
	require.Equal(t, []verbs.Outcome{verbs.OutcomeSuccess, verbs.OutcomeSuccess}, roundOutcomes(r))
	require.Equal(t, ledger.ProbeCounts{Rounds: 2, Successes: 2, Events: 2, Acked: 2, Resent: 1}, r.Counts)
	require.Less(t, r.Rounds[0].Wake, int64(time.Second/2), "it counts from the datagram that came")
	require.Equal(t, 3, strings.Count(calledVerbs(r.Trace), " post_send "))
	require.Equal(t, 3, strings.Count(calledVerbs(r.Trace), " create_ah "), "one before the first round, and one a round")
}

// If the event is late and the completion is not, nothing was lost.
func TestDatagramThatCameIsNotSentAgain(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "rounds", Method: verbs.MethodUDSend, Rounds: 1, Timeout: 400 * time.Millisecond, EventDelay: 300 * time.Millisecond,
		GIDIndex: -1, PKeyIndex: -1})
	require.Equal(t, []verbs.Outcome{verbs.OutcomeSuccess}, roundOutcomes(r))
	require.Equal(t, ledger.ProbeCounts{Rounds: 1, Successes: 1, Events: 1, Acked: 1}, r.Counts)
	require.Greater(t, r.Rounds[0].Wake, int64(200*time.Millisecond))
}

func TestUnsentDatagramIsAnError(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "rounds", Method: verbs.MethodUDSend, Rounds: 1, Plan: "f", Timeout: missed, GIDIndex: -1, PKeyIndex: -1})
	require.Equal(t, []verbs.Outcome{verbs.OutcomeError}, roundOutcomes(r))
	require.Equal(t, "loc_qp_op_err", r.Rounds[0].Status)
	require.Equal(t, ledger.ProbeCounts{Rounds: 1, Errors: 1}, r.Counts)
}

// doAddressAway does a round that succeeds, and then a round without an address for each
// errno by which the kernel reports that.
func doAddressAway(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	for _, f := range s.Failures {
		p, err := s.probe(verbs.MethodUDSend)
		if err != nil {
			return err
		}
		_, err = p.Round(0)
		s.check("round", err)
		s.FailErrno, s.FailStyle, s.FailCall = f.Errno, standin.StyleManual, int32(f.Call)
		r, err := p.Round(0)
		s.check("round without an address", err)
		s.report.Rounds = append(s.report.Rounds, roundReport{Round: r, Usable: p.Usable()})
		s.check("close probe", p.Close(long))
	}
	s.readLedger()
	s.check("close", s.dev.Close(long))
	return nil
}

func TestMissingAddressIsNoRound(t *testing.T) {
	o := order{Kind: "address away", GIDIndex: -1, PKeyIndex: -1, Failures: []failure{{Call: ledger.CallQueryGID, Errno: int32(unix.ENODATA)}}}
	for _, errno := range []unix.Errno{unix.ENODATA, unix.ETIMEDOUT, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EADDRNOTAVAIL} {
		o.Failures = append(o.Failures, failure{Call: ledger.CallCreateAH, Errno: int32(errno)})
	}
	r := mustCarryOut(t, o)
	for i, f := range o.Failures {
		require.Equal(t, verbs.OutcomeCanceled, r.Rounds[i].Outcome)
		require.Equal(t, f.Call.String()+": "+unix.Errno(f.Errno).Error(), r.Rounds[i].Status)
		require.False(t, r.Rounds[i].Usable, "otherwise the prober would not choose again")
	}
	n := uint64(len(o.Failures))
	require.Equal(t, ledger.ProbeCounts{Rounds: n, Successes: n, Events: n, Acked: n}, r.Counts)
}

// doSilentDevice does a round that succeeds, and two for which the device creates no
// address handle in time, although the address exists.
func doSilentDevice(s *subject) error {
	bnxt, _ := standin.FindProfile("bnxt_re")
	if err := bnxt.WriteSysfs(filepath.Join(s.root, "sys"), "standin0", "uverbs0"); err != nil {
		return err
	}
	p, err := s.openProbe(verbs.MethodUDSend)
	if err != nil {
		return err
	}
	for i := range 3 {
		if i > 0 {
			s.FailErrno, s.FailStyle, s.FailCall = int32(unix.ETIMEDOUT), standin.StyleManual, int32(ledger.CallCreateAH)
		}
		r, err := p.Round(0)
		s.check("round", err)
		s.report.Rounds = append(s.report.Rounds, roundReport{Round: r, Usable: p.Usable()})
	}
	s.readLedger()
	s.check("close", s.dev.Close(long))
	return nil
}

func TestSilentDeviceIsNoMissingAddress(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "silent device", GIDIndex: -1, PKeyIndex: -1})
	require.Equal(t, []verbs.Outcome{verbs.OutcomeSuccess, verbs.OutcomeCanceled, verbs.OutcomeError}, roundOutcomes(r))
	require.True(t, r.Rounds[1].Usable, "the address is there: there is no other to be chosen")
	require.False(t, r.Rounds[2].Usable)
	require.Equal(t, "ibv_create_ah: connection timed out", r.Rounds[2].Status)
	require.Equal(t, ledger.ProbeCounts{Rounds: 2, Successes: 1, Errors: 1, Events: 1, Acked: 1}, r.Counts)
}

// doHungAddress closes the device while the kernel resolves a probe's address.
func doHungAddress(s *subject) error {
	p, err := s.openProbe(verbs.MethodUDSend)
	if err != nil {
		return err
	}
	s.HangCall = int32(ledger.CallCreateAH)
	left := make(chan error, 1)
	go func() {
		_, err := p.Round(0)
		left <- err
	}()
	s.check("entered", s.entered())
	begun := time.Now()
	s.check("close", s.dev.Close(long))
	s.report.Took = time.Since(begun)
	s.check("release", s.release())
	<-left
	return nil
}

func TestCloseDoesNotAwaitResolution(t *testing.T) {
	r := carryOut(t, order{Kind: "hung address", GIDIndex: -1, PKeyIndex: -1})
	require.ElementsMatch(t, []string{"resolving", "stuck"}, r.Errors["close"].Is)
	require.Less(t, r.Took, long/10)
	t.Logf("given up after %v", r.Took.Round(time.Millisecond))
}
