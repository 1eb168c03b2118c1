//go:build linux && cgo

package native_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// doHungFabric creates, runs and closes an endpoint, and closes the device. One of the library's calls never returns.
func doHungFabric(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	f, err := s.fabrics()
	if err != nil {
		return err
	}
	rc, err := f.near.Offer(0, verbs.FabricProbes)
	if err != nil {
		return err
	}
	peer, err := f.answer(0, 1, rc)
	if err != nil {
		return err
	}
	hung := func(call func()) {
		s.HangCall = int32(s.Hang)
		go call()
		s.check("entered", s.entered())
	}
	switch s.Hang {
	case ledger.CallCreateQP:
		hung(func() { _, _ = f.near.Offer(1, verbs.FabricProbes) })
	case ledger.CallCreateAH, ledger.CallModifyQP:
		hung(func() { _ = f.near.Join(0, peer) })
	case ledger.CallPostSend, ledger.CallReqNotifyCQ, ledger.CallPollCQ, ledger.CallGetCQEvent, ledger.CallAckCQEvents:
		if err := f.near.Join(0, peer); err != nil {
			return err
		}
		hung(func() { _ = f.run(f.near, "near", long) })
	default:
		if err := f.near.Join(0, peer); err != nil {
			return err
		}
		s.HangCall = int32(s.Hang)
	}
	begun := time.Now()
	s.check("close fabric", f.near.Close(s.Timeout))
	s.check("close", s.dev.Close(s.Timeout))
	s.report.Took = time.Since(begun)
	s.readLedger()
	return nil
}

func TestACloseOfAFabricThatTheLibraryHoldsIsGivenUpAtItsDeadline(t *testing.T) {
	for _, call := range []ledger.Call{
		ledger.CallCreateQP, ledger.CallPostSend, ledger.CallReqNotifyCQ, ledger.CallPollCQ, ledger.CallGetCQEvent, ledger.CallAckCQEvents,
		ledger.CallDestroyQP, ledger.CallDestroyAH, ledger.CallDeregMR, ledger.CallDestroyCQ, ledger.CallDestroyCompChannel, ledger.CallDeallocPD,
	} {
		t.Run(call.String(), func(t *testing.T) {
			t.Parallel()
			r := carryOut(t, order{Kind: "hung fabric", Hang: call, Timeout: missed})
			require.Len(t, r.Errors, 2)
			require.Equal(t, []string{"stuck"}, r.Errors["close fabric"].Is)
			require.Equal(t, []string{"stuck"}, r.Errors["close"].Is)
			require.Equal(t, call, r.Busy.Call)
			require.GreaterOrEqual(t, r.Took, 2*missed)
			require.Less(t, r.Took, long)
		})
	}
}

// The kernel tries for about a second to resolve the address of a peer, both for an address handle and for a connection.
func TestACloseDoesNotAwaitTheAddressOfAPeer(t *testing.T) {
	for _, call := range []ledger.Call{ledger.CallCreateAH, ledger.CallModifyQP} {
		t.Run(call.String(), func(t *testing.T) {
			t.Parallel()
			r := carryOut(t, order{Kind: "hung fabric", Hang: call})
			require.ElementsMatch(t, []string{"resolving", "stuck"}, r.Errors["close fabric"].Is)
			require.ElementsMatch(t, []string{"resolving", "stuck"}, r.Errors["close"].Is)
			require.Less(t, r.Took, long/10)
			require.Equal(t, ledger.ThreadCall{Call: call, Port: 1}, ledger.ThreadCall{Call: r.Busy.Call, Port: r.Busy.Port})
			require.Positive(t, r.Busy.Thread, "the host sees by it that the kernel has the thread")
		})
	}
}

// doFabricProfile creates an endpoint on a device of each driver.
func doFabricProfile(s *subject) error {
	p, _ := standin.FindProfile(s.Profile)
	if err := p.WriteSysfs(s.root+"/sys", "standin0", "uverbs0"); err != nil {
		return err
	}
	s.Apply(p)
	if err := s.open(); err != nil {
		return err
	}
	f, port, err := s.fabric(1)
	s.report.Made = port
	s.report.Failures = append(s.report.Failures, newErrReport(err))
	if err == nil {
		s.check("run", (&fabrics{s: s}).once(f, "near"))
		s.check("close fabric", f.Close(long))
	}
	s.check("close", s.dev.Close(long))
	return nil
}

// A device without UD or RC queue pairs, or without addresses for them, can never have an endpoint.
func TestADriverSaysWhetherItsDevicesCanHaveAFabric(t *testing.T) {
	able := []string{"mlx5", "mlx5_vf", "mlx4", "bnxt_re", "bnxt_re of rdma-core 44", "irdma", "hns", "rxe"}
	const now = "hns HIP08 on Linux 6.12" // its provider does not say why it makes none
	for _, p := range standin.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			r := mustCarryOut(t, order{Kind: "fabric profile", Profile: p.Name})
			switch {
			case slices.Contains(able, p.Name):
				require.Empty(t, r.Failures[0].Text)
				require.Len(t, r.Made.UD, 4)
			case p.Name == now:
				require.Equal(t, []string{"unsupported"}, r.Failures[0].Is, r.Failures[0].Text)
			default:
				require.ElementsMatch(t, []string{"unsupported", "never fabric"}, r.Failures[0].Is, r.Failures[0].Text)
			}
		})
	}
}

// doFabricPort tries to create an endpoint on a port that cannot have one now.
func doFabricPort(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	try := func(o verbs.FabricOptions) {
		f, _, err := s.dev.NewFabricEndpoint(verbs.FabricConfig{Port: 1, FabricOptions: o})
		s.report.Failures = append(s.report.Failures, newErrReport(err))
		if err == nil {
			s.check("close fabric", f.Close(long))
		}
	}
	o := verbs.FabricOptions{Paths: 1, Interval: time.Second, GIDIndex: -1, PKeyIndex: -1}
	s.PortState = int32(verbs.PortDown)
	try(o)
	s.PortState = int32(verbs.PortActive)
	o.GIDIndex = 0 // of RoCE v1
	try(o)
	o.GIDIndex, o.PKeyIndex = -1, 9
	try(o)
	o.PKeyIndex = -1
	s.FailErrno, s.FailStyle, s.FailCall = int32(unix.EIO), standin.StyleManual, int32(ledger.CallQueryPort)
	try(o)
	try(o)
	s.check("close", s.dev.Close(long))
	return nil
}

func TestAPortSaysWhyItHasNoFabricNow(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "fabric port"})
	for i, want := range []string{
		"unsupported operation: the port is down",
		"unsupported operation: the port has no GID at index 0 that fits (on Ethernet one of RoCE v2)",
		"unsupported operation: the port has no P_Key at index 9",
		"ibv_query_port: input/output error", // sysfs has the device
		"",
	} {
		if want != "" {
			want = "new fabric standin0 port 1: " + want
		}
		require.Equal(t, want, r.Failures[i].Text)
	}
	require.Empty(t, r.Failures[3].Is)
}
