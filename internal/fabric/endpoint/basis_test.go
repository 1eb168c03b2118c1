package endpoint

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/sessiontest"
	"rdma_events/internal/device/verbs"
)

func newGID(index int, typ verbs.GIDType, address string) verbs.GID {
	return verbs.GID{Index: index, Type: typ, Raw: netip.MustParseAddr(address).As16()}
}

var (
	linkLocal = newGID(1, verbs.GIDRoCEv2, "fe80::1")
	version1  = newGID(2, verbs.GIDRoCEv1, "::ffff:10.4.0.1")
	ipv4      = newGID(3, verbs.GIDRoCEv2, "::ffff:10.4.0.1")
)

func TestAFabricFollowsTheGIDsThatWereAnnounced(t *testing.T) {
	moved := ipv4
	moved.Index = 7
	for name, row := range map[string]struct {
		table []verbs.GID
		why   string // "": the Fabric is kept
	}{
		"the address is removed":                      {[]verbs.GID{linkLocal}, "a GID of the port has changed"},
		"it comes back at another index":              {[]verbs.GID{linkLocal, version1, moved}, "a GID of the port has changed"},
		"another address takes its place":             {[]verbs.GID{linkLocal, newGID(3, verbs.GIDRoCEv2, "::ffff:10.4.0.9")}, "a GID of the port has changed"},
		"an entry that was not announced is removed":  {[]verbs.GID{ipv4}, ""},
		"one more address of a kind":                  {[]verbs.GID{linkLocal, version1, ipv4, newGID(4, verbs.GIDRoCEv2, "::ffff:10.9.0.1")}, ""},
		"one more address of the link":                {[]verbs.GID{linkLocal, version1, ipv4, newGID(4, verbs.GIDRoCEv2, "fe80::2")}, ""},
		"an address of another kind":                  {[]verbs.GID{linkLocal, ipv4, newGID(4, verbs.GIDRoCEv2, "fd00::1")}, "the port has another kind of GID"},
		"an address of another kind for RoCE v1 only": {[]verbs.GID{linkLocal, version1, ipv4, newGID(4, verbs.GIDRoCEv1, "fd00::1")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFabricRig(t, "roce2", "")
				r.Options.Ports = []int{1}
				r.table = []verbs.GID{linkLocal, version1, ipv4}
				r.Start(nil)
				announced := fabricPorts(r.After(time.Second))
				require.Len(t, announced, 1, "the first reading of the table changes nothing")
				require.Len(t, announced[0].GIDs, 1)
				changed := time.Now()
				r.setGIDs(row.table...)
				announced = fabricPorts(r.After(100*time.Millisecond + settle))
				first, _ := r.lastFabric()
				if row.why == "" {
					require.Empty(t, announced)
					require.False(t, first.closed.Load())
					return
				}
				require.Equal(t, []verbs.FabricPort{{Port: 1, Reason: row.why}}, announced)
				require.Equal(t, queryDelay, first.closedAt.Sub(changed), "it holds an entry of the table until then")
				announced = fabricPorts(r.After(time.Minute))
				require.Len(t, announced, 1, "and another one is made once")
				require.NotZero(t, announced[0].Epoch)
			})
		})
	}
}

func TestTheFirstAddressOfAnInterfaceMakesAnotherFabric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.table = []verbs.GID{linkLocal}
		r.Start(nil)
		require.Empty(t, fabricPorts(r.After(time.Minute))[0].GIDs)
		r.setGIDs(linkLocal, ipv4)
		announced := fabricPorts(r.After(time.Minute))
		require.Len(t, announced, 2)
		require.Equal(t, []verbs.FabricGID{{Index: 3, Raw: ipv4.Raw}}, announced[1].GIDs)
	})
}

func TestAnIndexThatIsConfiguredIsNotLeftForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Options.Fabric.GIDIndex = 3
		r.table = []verbs.GID{linkLocal, ipv4}
		r.Start(nil)
		r.After(time.Minute)
		r.setGIDs(linkLocal, ipv4, newGID(4, verbs.GIDRoCEv2, "fd00::1"))
		require.Empty(t, fabricPorts(r.After(time.Minute)))
	})
}

// A reading of the GID table may be older than the Fabric and lack its GIDs.
func TestATableFromBeforeTheFabricSaysNothingOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.refuse = verbs.ErrUnsupported
		r.table = []verbs.GID{linkLocal}
		r.Start(nil)
		r.After(500 * time.Millisecond)
		r.locked(func() { r.refuse, r.table = nil, []verbs.GID{linkLocal, ipv4} }) // the event is lost
		announced := fabricPorts(r.After(time.Hour))
		require.Len(t, announced, 1)
		require.Len(t, announced[0].GIDs, 1)
	})
}

func TestAnotherLIDMakesAnotherFabric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "dual", "")
		r.Options.Ports = []int{1} // InfiniBand
		r.Start(nil)
		r.After(time.Minute)
		r.locked(func() { r.lid = 4711 })
		require.NoError(t, r.World.Inject("sim0", verbs.EventLIDChange, 1, 1))
		require.Equal(t, []verbs.FabricPort{{Port: 1, Reason: "the LID of the port has changed"}}, fabricPorts(r.After(queryDelay)))
		announced := fabricPorts(r.After(2 * time.Second))
		require.Len(t, announced, 1)
		require.Equal(t, 4711, announced[0].LID)
	})
}

func TestOtherPKeysMakeAnotherFabric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "dual", "")
		r.Options.Ports = []int{1}
		r.Start(nil)
		r.After(time.Minute)
		changed := time.Now()
		require.NoError(t, r.World.Inject("sim0", verbs.EventPKeyChange, 1, 1))
		announced := fabricPorts(r.After(2 * time.Second))
		require.Len(t, announced, 2)
		require.Equal(t, "the P_Keys of the port have changed", announced[0].Reason)
		require.NotZero(t, announced[1].Epoch)
		first, _ := r.lastFabric()
		require.False(t, first.closed.Load())
		require.Equal(t, []time.Duration{restTime}, r.attemptDelays(changed))
	})
}

func TestAFabricOfTheSimulatorStays(t *testing.T) {
	for _, profile := range []string{"roce2", "dual", "ib8"} {
		synctest.Test(t, func(t *testing.T) {
			r := newFabricRig(t, profile, "")
			r.Wrap = nil
			r.Start(nil)
			items := r.After(time.Hour)
			announced := fabricPorts(items)
			require.Len(t, announced, sessiontest.Pick(items, func(i verbs.Item) *verbs.DeviceAttr { return i.Opened })[0].Ports)
			for _, at := range announced {
				require.NotZero(t, at.Epoch, at.Reason)
			}
		})
	}
}
