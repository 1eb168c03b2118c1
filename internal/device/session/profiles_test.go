package session

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/sessiontest"
	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/simulated/devices"
	"rdma_events/internal/sys/status"
)

// TestSimulatedDriversAreSeenAsTheStandIns checks that the simulator's profiles agree
// with the table of drivers, with which the native backend is compared too. A name with a
// space is the name of a variant, which the simulator does not have.
func TestSimulatedDriversAreSeenAsTheStandIns(t *testing.T) {
	for _, p := range standin.Profiles() {
		if strings.Contains(p.Name, " ") {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { requireAgreement(t, p) })
		})
	}
}

func requireAgreement(t *testing.T, p standin.Profile) {
	t.Helper()
	r := newRig(t, p.Name, "[[fault]]\nkind = \"removed\"\nat = \"60s\"\n")
	r.WaitRemoved = func(ctx context.Context, device string) error {
		return devices.New(r.World).(RemovalWatcher).WaitRemoved(ctx, device)
	}
	r.Start(nil)
	items := r.After(3500 * time.Millisecond)
	opened := items[0].Opened
	require.Equal(t, p.PortEvents > 0, opened.EventsSupported)
	require.Equal(t, p.Module == "efa", opened.AlwaysActive)
	require.Equal(t, p.NodeType == "4: RNIC", opened.Transport == "iwarp")
	require.Equal(t, hasFile(p, "flush_error") || hasFile(p, "wrfe"), opened.CountsFlushes)
	require.Equal(t, p.Link, sessiontest.Readings(items)[0].Attr.LinkLayer)
	require.Equal(t, hasFile(p, "link_downed"), sessiontest.Readings(items)[0].Attr.HasLinkDowned)
	require.Equal(t, p.Seen.Up.Method, lastMethod(items))

	require.NoError(t, r.World.SetLink("sim0", 1, false))
	items = append(items, r.After(10*time.Second)...)
	require.Equal(t, p.Seen.Down.Method, lastMethod(items))
	require.NoError(t, r.World.SetLink("sim0", 1, true))
	items = append(items, r.After(10*time.Second)...)
	require.Equal(t, p.Seen.Up.Method, lastMethod(items))
	require.EqualValues(t, p.PortEvents, r.read(verbs.EventPortErr))
	require.EqualValues(t, p.PortEvents, r.read(verbs.EventPortActive))
	const changes = 2
	require.Equal(t, slices.Contains(p.Events, verbs.EventDeviceSpeedChange), r.read(verbs.EventDeviceSpeedChange) == changes)
	require.Zero(t, r.counts().LostEvents+r.counts().LostCompletions, "trials count nothing")

	r.After(time.Minute)
	<-r.Done
	require.Equal(t, status.ReasonRemoved, r.Why.Reason)
	require.Equal(t, p.Disassociates, r.read(verbs.EventDeviceFatal) == 1)
}

// hasFile reports whether a driver has a counter whose name ends with end.
func hasFile(p standin.Profile, end string) bool {
	for name := range p.Files {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// lastMethod returns the method of the last choice.
func lastMethod(items []verbs.Item) verbs.Method {
	all := probeItems(items)
	return all[len(all)-1].Method
}

// read returns the ledger's count of the events of a type that were read.
func (r *rig) read(typ verbs.EventType) uint64 {
	events := r.Counters().Events
	i := slices.IndexFunc(events, func(e ledger.EventCounts) bool { return e.Type == int32(typ) })
	if i < 0 {
		return 0
	}
	return events[i].Read
}
