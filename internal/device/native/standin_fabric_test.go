//go:build linux && cgo

package native_test

import (
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

// scenes are the actions of the helper process with two endpoints, by name.
var scenes = map[string]func(*fabrics) error{
	"one round": func(f *fabrics) error {
		if err := f.meet(3, 1); err != nil {
			return err
		}
		return f.round("near")
	},
	"held sends": sceneHeldSends, "held sends and Close": sceneHeldClose, "many held sends": sceneManyHeld,
	"full send queue": sceneFullSendQueue, "unsent": sceneUnsent, "corrupt": sceneCorrupt, "late": sceneLate, "removal": sceneRemoval,
	"failed join": sceneFailedJoin, "replaced write": sceneReplacedWrite, "stray event": sceneStray, "full ledger": sceneFullLedger,
}

// round makes the near side probe, the far side answer, and the near side receive the echo.
func (f *fabrics) round(name string) error {
	for _, turn := range []struct {
		fab  verbs.FabricEndpoint
		name string
	}{{f.near, name}, {f.far, "far"}, {f.near, name}} {
		if err := f.once(turn.fab, turn.name); err != nil {
			return err
		}
	}
	return nil
}

func carryOutFabric(t *testing.T, o order) report {
	t.Helper()
	o.Kind = "fabric"
	return mustCarryOut(t, o)
}

func factKinds(facts []verbs.FabricFact) (list []verbs.FabricKind) {
	for _, f := range facts {
		list = append(list, f.Kind)
	}
	return list
}

func TestARoundIsAProbeAndAWriteWithWhatThePortNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		o           order
		handle, rtr []string
		gids, pkey  int
	}{
		"RoCE": {
			order{Fabric: verbs.FabricOptions{Paths: 4, Interval: time.Hour, GIDIndex: -1, PKeyIndex: -1, TrafficClass: 104, ServiceLevel: 3}},
			[]string{"global=1", "sgid_index=3", "dlid=17", "traffic_class=104", "sl=3"}, []string{"global=1", "sgid_index=3"}, 2, 1,
		},
		"RoCE with a GID and a P_Key": {
			order{Fabric: verbs.FabricOptions{Paths: 4, Interval: time.Hour, GIDIndex: 1, PKeyIndex: 2}},
			[]string{"global=1", "sgid_index=1", "traffic_class=0", "sl=0"}, []string{"global=1", "sgid_index=1"}, 1, 2,
		},
		"InfiniBand": {
			order{LinkLayer: verbs.LinkInfiniBand, Fabric: verbs.FabricOptions{Paths: 4, Interval: time.Hour, GIDIndex: -1, PKeyIndex: -1}},
			[]string{"global=1", "sgid_index=0", "dlid=17"}, []string{"global=1", "sgid_index=0", "dlid=17"}, 1, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.o.Scene = "one round"
			r := carryOutFabric(t, c.o)
			require.Equal(t, []verbs.FabricKind{verbs.FabricSent, verbs.FabricWrite, verbs.FabricWriteDone, verbs.FabricEcho},
				factKinds(r.Facts["near"]))
			require.Len(t, r.Made.GIDs, c.gids)
			requireHandles(t, r.Trace, c.handle)
			requireConnections(t, r.Trace, c.rtr, c.pkey)
		})
	}
}

// requireHandles requires an address handle for each of the pair's four paths on both sides, each with its own flow label.
func requireHandles(t *testing.T, trace, want []string) {
	t.Helper()
	var labels []string
	for _, line := range trace {
		if !strings.HasPrefix(line, "create_ah ") {
			continue
		}
		for _, w := range append(want, "hop_limit=64") {
			require.Contains(t, strings.Fields(line), w)
		}
		labels = append(labels, argumentValues([]string{line}, "create_ah", "flow_label")...)
	}
	require.Len(t, labels, 2*4)
	require.Equal(t, labels[:4], labels[4:])
	slices.Sort(labels)
	require.Len(t, slices.Compact(labels), 4)
	require.NotContains(t, labels, "0", "mlx5 replaces it by a random one")
}

func requireConnections(t *testing.T, trace, want []string, pkey int) {
	t.Helper()
	connections := 0
	for _, line := range trace {
		switch {
		case strings.HasPrefix(line, "modify_qp to=init"):
			require.Equal(t, []string{string(rune('0' + pkey))}, argumentValues([]string{line}, "modify_qp", "pkey_index"))
		case strings.HasPrefix(line, "modify_qp to=rtr") && !strings.Contains(line, "dest_qp_num=0"):
			connections++
			for _, w := range append(want, "path_mtu=1") {
				require.Contains(t, strings.Fields(line), w)
			}
		}
	}
	require.Equal(t, 2, connections)
}

// calls returns how often the library was called so far.
func (f *fabrics) calls(c ledger.Call) int { return int(f.s.Calls[c]) }

func sceneHeldSends(f *fabrics) error {
	f.s.HoldSends = 1
	if err := f.meet(0, 1); err != nil {
		return err
	}
	if err := f.once(f.near, "near"); err != nil {
		return err
	}
	f.s.check("leave", f.near.Leave(0))
	f.note("while held", f.calls(ledger.CallDestroyAH))
	f.s.HoldSends = 0
	f.s.check("leave", f.near.Leave(7))
	f.note("then", f.calls(ledger.CallDestroyAH))
	return nil
}

func TestAnAddressHandleOutlivesTheDatagramsThatUseIt(t *testing.T) {
	r := carryOutFabric(t, order{Scene: "held sends"})
	require.Equal(t, map[string]int{"while held": 0, "then": 4}, r.Steps)
}

func sceneHeldClose(f *fabrics) error {
	f.s.HoldSends = 1
	for place := range 2 {
		if err := f.meet(place, uint64(place)+1); err != nil {
			return err
		}
	}
	if err := f.once(f.near, "near"); err != nil {
		return err
	}
	f.s.check("leave", f.near.Leave(0))
	f.s.check("close", f.near.Close(long))
	f.note("destroyed", f.calls(ledger.CallDestroyAH))
	return nil
}

func TestCloseTakesQueuesOfDatagramsWithItBeforeTheirHandles(t *testing.T) {
	require.Equal(t, map[string]int{"destroyed": 2 * 4}, carryOutFabric(t, order{Scene: "held sends and Close"}).Steps)
}

func sceneManyHeld(f *fabrics) error {
	f.s.HoldSends = 1
	n := 0
	var err error
	for ; n < 100 && err == nil; n++ {
		if err = f.meet(0, uint64(n)+1); err == nil {
			err = f.once(f.near, "near")
		}
	}
	f.note("meetings", n)
	f.s.report.Failures = append(f.s.report.Failures, newErrReport(err))
	f.s.HoldSends = 0
	return f.meet(0, 1000)
}

func TestOffersAreRefusedWhileNothingLeavesTheDevice(t *testing.T) {
	r := carryOutFabric(t, order{Scene: "many held sends", Fabric: verbs.FabricOptions{Paths: 1, Interval: time.Hour, GIDIndex: -1, PKeyIndex: -1}})
	require.Equal(t, []string{"limit"}, r.Failures[0].Is)
	require.Greater(t, r.Steps["meetings"], 60)
	require.Less(t, r.Steps["meetings"], 70)
}

func sceneFullSendQueue(f *fabrics) error {
	f.s.HoldSends = 1
	if err := f.meet(0, 1); err != nil {
		return err
	}
	for len(f.s.report.Facts["near"]) == 0 || !slices.ContainsFunc(f.s.report.Facts["near"], isUnsent) {
		if err := f.run(f.near, "near", time.Millisecond); err != nil {
			return err
		}
	}
	f.s.HoldSends = 0
	for len(f.s.report.Facts["later"]) == 0 {
		if err := f.run(f.near, "later", time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func isUnsent(f verbs.FabricFact) bool { return f.Kind == verbs.FabricUnsent }

func TestAProbeThatIsRefusedKeepsItsNumber(t *testing.T) {
	const sends = 64
	r := carryOutFabric(t, order{Scene: "full send queue", Fabric: verbs.FabricOptions{Paths: 1, Interval: time.Millisecond, GIDIndex: -1, PKeyIndex: -1}})
	var last uint64
	for _, f := range r.Facts["near"] {
		switch f.Kind {
		case verbs.FabricSent:
			last++
			require.Equal(t, last, f.Seq)
		case verbs.FabricUnsent:
			require.EqualValues(t, sends+1, f.Seq)
			require.Equal(t, "ibv_post_send: cannot allocate memory", f.Status)
		}
	}
	require.EqualValues(t, sends, last)
	i := slices.IndexFunc(r.Facts["later"], func(f verbs.FabricFact) bool { return f.Kind == verbs.FabricSent })
	require.EqualValues(t, sends+1, r.Facts["later"][i].Seq)
}

func sceneUnsent(f *fabrics) error {
	if err := f.meet(0, 1); err != nil {
		return err
	}
	f.s.Control.WCStatus = 2 // IBV_WC_LOC_QP_OP_ERR
	if err := f.once(f.near, "near"); err != nil {
		return err
	}
	for range 2 { // the facts of before came without an error
		f.s.report.Failures = append(f.s.report.Failures, newErrReport(f.once(f.near, "near")))
	}
	return nil
}

func TestAQueueOfDatagramsThatFailsEndsTheFabric(t *testing.T) {
	r := carryOutFabric(t, order{Scene: "unsent"})
	for _, f := range r.Failures {
		require.Equal(t, "run fabric standin0 port 1: a queue pair of datagrams failed: loc_qp_op_err", f.Text)
	}
	require.Len(t, r.Failures, 2)
}

// sceneCorrupt changes, one at a time, each field of a datagram sent to the far side, the length of the datagram, and the
// number of an echo.
func sceneCorrupt(f *fabrics) error {
	for i, at := range []int32{1, 5, 6, 7, 9, 16, 0} {
		f.s.Corrupt, f.s.Stretch = at, 0
		if at == 0 {
			f.s.Stretch = 1
		}
		if err := f.meet(i, uint64(i)+1); err != nil {
			return err
		}
		if err := f.round("corrupt"); err != nil {
			return err
		}
	}
	f.s.Corrupt, f.s.Stretch = 0, 0
	if err := f.meet(10, 11); err != nil {
		return err
	}
	if err := f.once(f.near, "echo"); err != nil {
		return err
	}
	f.s.Corrupt = 20 // the last byte of the number
	if err := f.once(f.far, "far"); err != nil {
		return err
	}
	return f.once(f.near, "echo")
}

func TestWhatIsNoDatagramOfAPairIsForeign(t *testing.T) {
	r := carryOutFabric(t, order{Scene: "corrupt"})
	for _, f := range r.Facts["corrupt"] {
		require.NotEqual(t, verbs.FabricEcho, f.Kind)
	}
	require.Equal(t, []verbs.FabricKind{verbs.FabricSent, verbs.FabricWrite, verbs.FabricWriteDone}, factKinds(r.Facts["echo"]))
	near, far := r.fabric(1), r.fabric(2)
	require.EqualValues(t, 7, far.Foreign)
	require.EqualValues(t, 1, far.Echoed)
	require.EqualValues(t, 1, near.Foreign)
	require.Equal(t, far.Events, far.Acked)
}

// fabric returns the ledger's state of a port's endpoint.
func (r *report) fabric(port int) ledger.FabricState {
	i := slices.IndexFunc(r.Fabrics, func(f ledger.FabricState) bool { return f.Port == port })
	return r.Fabrics[i]
}

// sceneLate pauses the near side for longer than an echo may take.
func sceneLate(f *fabrics) error {
	if _, err := f.near.Offer(0, verbs.FabricProbes); err != nil {
		return err
	}
	rc, err := f.far.Offer(0, verbs.FabricAnswers) // and never joined
	if err != nil {
		return err
	}
	if err := f.near.Join(0, f.peer(f.farPort, verbs.FabricProbes, 1, rc)); err != nil {
		return err
	}
	if err := f.once(f.near, "before"); err != nil {
		return err
	}
	time.Sleep(400 * time.Millisecond)
	if err := f.once(f.near, "late"); err != nil {
		return err
	}
	for !slices.Contains(factKinds(f.s.report.Facts["after"]), verbs.FabricMissing) {
		if err := f.run(f.near, "after", time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func TestAThreadThatWakesLateExcusesWhatItAwaits(t *testing.T) {
	r := carryOutFabric(t, order{Scene: "late"})
	require.Equal(t, []verbs.FabricKind{verbs.FabricLate}, factKinds(r.Facts["late"]))
	late := r.Facts["late"][0]
	require.Equal(t, -1, late.Pair)
	require.Zero(t, late.Session)
	// The echo was missing 100 ms after the probe.
	require.GreaterOrEqual(t, late.Took, int64(250*time.Millisecond))
	for _, f := range r.Facts["after"] {
		if f.Kind == verbs.FabricMissing {
			require.GreaterOrEqual(t, f.At-late.At, int64(100*time.Millisecond), "it has all of its time once more")
		}
	}
}

func sceneRemoval(f *fabrics) error {
	if err := f.meet(0, 1); err != nil {
		return err
	}
	if err := f.round("near"); err != nil {
		return err
	}
	f.s.unlist()
	f.s.Disassociate = 1
	for range 2 {
		f.s.report.Failures = append(f.s.report.Failures, newErrReport(f.run(f.near, "near", time.Hour)))
	}
	f.s.report.Failures = append(f.s.report.Failures, newErrReport(f.meet(1, 2)))
	return nil
}

func TestARemovalEndsRunAndOrders(t *testing.T) {
	for name, old := range map[string]bool{"newer kernel": false, "older kernel": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := carryOut(t, order{Kind: "fabric", Scene: "removal", OldKernel: old})
			for _, f := range r.Failures {
				require.Equal(t, []string{"no device"}, f.Is, f.Text)
			}
			require.Len(t, r.Failures, 3)
			for _, f := range r.Fabrics {
				require.Equal(t, f.Events, f.Acked)
				require.NotZero(t, f.Events)
			}
			if !old { // there a destroy fails, and its object stays
				require.Empty(t, r.Errors)
				require.Empty(t, r.Violation)
			}
		})
	}
}

// sceneFailedJoin makes a join fail in the slot of a running pair.
func sceneFailedJoin(f *fabrics) error {
	if err := f.meet(0, 1); err != nil {
		return err
	}
	rc, err := f.near.Offer(0, verbs.FabricProbes)
	if err != nil {
		return err
	}
	peer := f.peer(f.farPort, verbs.FabricProbes, 2, rc)
	f.s.FailErrno, f.s.FailStyle, f.s.FailCall = int32(unix.EHOSTUNREACH), standin.StyleManual, int32(ledger.CallCreateAH)
	f.s.report.Failures = append(f.s.report.Failures, newErrReport(f.near.Join(0, peer)), newErrReport(f.near.Join(0, peer)))
	return f.round("near")
}

func TestAJoinThatFailsLeavesTheFormerPairAlone(t *testing.T) {
	r := carryOutFabric(t, order{Scene: "failed join"})
	require.Contains(t, r.Failures[0].Text, "ibv_create_ah standin0 port 1: unsupported operation: no route to host")
	require.Contains(t, r.Failures[1].Text, "invalid argument", "nothing is offered any more")
	require.Contains(t, factKinds(r.Facts["near"]), verbs.FabricEcho)
	for _, f := range r.Facts["near"] {
		require.EqualValues(t, 1, f.Session)
	}
	require.Equal(t, []ledger.FabricPair{{Session: 1, FabricPairCounts: ledger.FabricPairCounts{Sent: 1, Answered: 1, Writes: 1, WritesOK: 1}}},
		r.fabric(1).Pairs)
}

// sceneReplacedWrite replaces a pair while the completion of its write is in the queue.
func sceneReplacedWrite(f *fabrics) error {
	if err := f.meet(0, 1); err != nil {
		return err
	}
	facts := make([]verbs.FabricFact, verbs.MinFabricFacts)
	n, _, err := f.near.Run(facts, 0)
	if err != nil {
		return err
	}
	f.s.report.Facts = map[string][]verbs.FabricFact{"first": facts[:n]}
	if err := f.meet(0, 2); err != nil {
		return err
	}
	return f.round("second")
}

func TestTheWriteOfAFormerPairIsIgnored(t *testing.T) {
	r := carryOutFabric(t, order{Scene: "replaced write"})
	require.Equal(t, []verbs.FabricKind{verbs.FabricSent, verbs.FabricWrite}, factKinds(r.Facts["first"]))
	require.Equal(t, []verbs.FabricKind{verbs.FabricSent, verbs.FabricWrite, verbs.FabricWriteDone, verbs.FabricEcho}, factKinds(r.Facts["second"]))
	require.Equal(t, []ledger.FabricPair{{Session: 2, FabricPairCounts: ledger.FabricPairCounts{Sent: 1, Answered: 1, Writes: 1, WritesOK: 1}}},
		r.fabric(1).Pairs)
}

// sceneStray raises an event of the near side's queue without a completion.
func sceneStray(f *fabrics) error {
	if err := f.s.stray(); err != nil {
		return err
	}
	return f.once(f.near, "near")
}

func TestAnEventWithoutACompletionIsSpurious(t *testing.T) {
	near := carryOutFabric(t, order{Scene: "stray event"})
	require.Equal(t, ledger.FabricCounts{Events: 1, Acked: 1, Spurious: 1}, near.fabric(1).FabricCounts)
}

func sceneFullLedger(f *fabrics) error {
	for port := range ledger.FabricSlots - 2 {
		if _, err := f.s.led.AddFabric(100 + port); err != nil {
			return err
		}
	}
	_, _, err := f.s.dev.NewFabricEndpoint(verbs.FabricConfig{Port: 1, FabricOptions: verbs.FabricOptions{Paths: 1, Interval: 1, GIDIndex: -1}})
	f.s.report.Failures = append(f.s.report.Failures, newErrReport(err))
	return nil
}

func TestAPortWithoutASlotOfTheLedgerHasNoFabric(t *testing.T) {
	r := carryOutFabric(t, order{Scene: "full ledger"})
	require.Equal(t, []string{"limit"}, r.Failures[0].Is)
}
