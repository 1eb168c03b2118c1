package gidtable

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func newGID(index int, addr string) verbs.GID {
	return verbs.GID{Index: index, Raw: netip.MustParseAddr(addr).As16(), Type: verbs.GIDRoCEv2, NetDev: "eth0"}
}

func newTable(at time.Duration, gids ...verbs.GID) *verbs.GIDTable {
	return &verbs.GIDTable{Port: 1, Mono: int64(at), Entries: gids}
}

// changeTexts returns a short text for each change: action, address, indexes and time away.
func changeTexts(changes []Change) (all []string) {
	for _, c := range changes {
		all = append(all, fmt.Sprintf("%s %s %d > %d after %v", c.Action, c.GID, c.From, c.To, time.Duration(c.Away)))
	}
	return all
}

const local, host = "fe80::1", "::ffff:10.4.0.1"

func TestTheFirstReadingIsTheBaseline(t *testing.T) {
	var d Differ
	_, known := d.Count()
	require.False(t, known)
	require.Empty(t, d.Update(newTable(0, newGID(0, local), newGID(3, host))))
	require.Empty(t, d.Update(newTable(1, newGID(0, local), newGID(3, host))))
	n, known := d.Count()
	require.True(t, known)
	require.Equal(t, 2, n)
}

func TestAnAddressThatComesBackHasMovedOrReturned(t *testing.T) {
	var d Differ
	d.Update(newTable(0, newGID(0, local), newGID(3, host)))
	require.Equal(t, []string{"removed ::ffff:10.4.0.1 3 > -1 after 0s"}, changeTexts(d.Update(newTable(time.Second, newGID(0, local)))))
	require.Equal(t, []string{"moved ::ffff:10.4.0.1 3 > 5 after 400ms"},
		changeTexts(d.Update(newTable(1400*time.Millisecond, newGID(0, local), newGID(5, host)))))
	d.Update(newTable(2*time.Second, newGID(0, local)))
	require.Equal(t, []string{"returned ::ffff:10.4.0.1 5 > 5 after 1s"},
		changeTexts(d.Update(newTable(3*time.Second, newGID(0, local), newGID(5, host)))))
	require.Equal(t, []string{"moved ::ffff:10.4.0.1 5 > 3 after 0s"},
		changeTexts(d.Update(newTable(4*time.Second, newGID(0, local), newGID(3, host)))), "away between two readings")
	require.Equal(t, []string{"added ::ffff:10.4.0.2 -1 > 4 after 0s"}, changeTexts(d.Update(
		newTable(5*time.Second, newGID(0, local), newGID(3, host), newGID(4, "::ffff:10.4.0.2")))))
}

// A default GID contains the MAC address, so after a change of the MAC address it is a different GID.
func TestAMACChangeRemovesTheOldAndAddsTheNew(t *testing.T) {
	var d Differ
	d.Update(newTable(0, newGID(0, "fe80::1"), newGID(1, host)))
	require.Equal(t, []string{"removed fe80::1 0 > -1 after 0s", "added fe80::2 -1 > 0 after 0s"},
		changeTexts(d.Update(newTable(1, newGID(0, "fe80::2"), newGID(1, host)))))
}

func TestAddressesOfTwoNetdevsAreTwoGIDs(t *testing.T) {
	vlan := newGID(4, local)
	vlan.NetDev = "eth0.100"
	var d Differ
	d.Update(newTable(0, newGID(0, local), vlan))
	require.Equal(t, []string{"removed fe80::1 4 > -1 after 0s"}, changeTexts(d.Update(newTable(1, newGID(0, local)))))
}

func TestARenamedNetdevChangesNoGID(t *testing.T) {
	renamed := newGID(3, host)
	renamed.NetDev = "eth7"
	var d Differ
	d.Update(newTable(0, newGID(3, host)))
	require.Empty(t, d.Update(newTable(1, renamed)))
	moved := renamed
	moved.Index = 5
	require.Equal(t, []string{"moved ::ffff:10.4.0.1 3 > 5 after 0s"}, changeTexts(d.Update(newTable(2, moved))))
}

func TestAChangeSaysWhetherOurProbeSentFromTheGID(t *testing.T) {
	var d Differ
	first := newTable(0, newGID(0, local), newGID(3, host))
	first.Probed = []int{3}
	d.Update(first)
	c := d.Update(newTable(1, newGID(5, host)))
	require.Len(t, c, 2)
	require.Equal(t, []bool{false, true}, []bool{c[0].Probed, c[1].Probed})
	again := newTable(2, newGID(7, host))
	again.Probed = []int{5} // the probe was made after the reading before
	require.True(t, d.Update(again)[0].Probed)
}

func TestANewWorkersFirstReadingIsMarked(t *testing.T) {
	var d Differ
	d.HandleOpened()
	require.Empty(t, d.Update(newTable(0, newGID(0, local))), "the first worker has the baseline")
	d.HandleOpened()
	require.True(t, d.Update(newTable(1, newGID(2, local)))[0].Reopened)
	require.False(t, d.Update(newTable(2, newGID(3, local)))[0].Reopened)
}

func TestTheMemoryOfWhatIsAwayIsBounded(t *testing.T) {
	var d Differ
	d.Update(newTable(0))
	for i := range 3 * maxAway {
		addr := netip.AddrFrom4([4]byte{10, 1, byte(i / 256), byte(i)}).String()
		d.Update(newTable(time.Duration(2*i), newGID(0, addr)))
		d.Update(newTable(time.Duration(2*i + 1)))
	}
	require.Len(t, d.away, maxAway)
}

// For any two tables, applying the changes to the first one results in the second one.
func TestTheChangesLeadFromOneTableToTheNext(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		var d Differ
		have := map[string]int{}
		for at := range 8 {
			var entries []verbs.GID
			for index := range 6 {
				if r.IntN(3) > 0 {
					entries = append(entries, newGID(index, fmt.Sprintf("fe80::%d", 6*r.IntN(2)+index)))
				}
			}
			changes := d.Update(newTable(time.Duration(at), entries...))
			if at == 0 {
				for _, g := range entries {
					have[g.String()] = g.Index
				}
			}
			for _, c := range changes {
				if c.Action == verbs.GIDRemoved {
					require.Equal(t, c.From, have[c.GID.String()])
					delete(have, c.GID.String())
				} else {
					have[c.GID.String()] = c.To
				}
			}
			want := map[string]int{}
			for _, g := range entries {
				want[g.String()] = g.Index
			}
			require.Equal(t, want, have)
		}
	}
}
