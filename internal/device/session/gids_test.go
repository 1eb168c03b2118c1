package session

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/sessiontest"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/simulated/devices"
)

// gidTables returns the GID tables among the items.
func gidTables(items []verbs.Item) (all []*verbs.GIDTable) {
	for _, it := range items {
		if it.GIDs != nil {
			all = append(all, it.GIDs)
		}
	}
	return all
}

func gidIndexes(t *verbs.GIDTable) (all []int) {
	for _, g := range t.Entries {
		all = append(all, g.Index)
	}
	return all
}

func TestAGIDTableIsSentAtFirstAndWhenItHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", `
[[gid]]
at = "10s"
device = "sim0"
index = 3
to = 6
away = "400ms"
`)
		r.Start(nil)
		first := gidTables(r.After(9 * time.Second))
		require.Len(t, first, 1, "the baseline")
		require.Equal(t, []int{0, 1, 2, 3}, gidIndexes(first[0]))
		require.Equal(t, 1, first[0].Port)
		changed := gidTables(r.After(2 * time.Second))
		require.Len(t, changed, 2)
		require.Equal(t, []int{0, 1, 2}, gidIndexes(changed[0]))
		require.Equal(t, []int{0, 1, 2, 6}, gidIndexes(changed[1]))
		require.Equal(t, changed[0].Mono+(400*time.Millisecond).Nanoseconds(), changed[1].Mono)
		require.Empty(t, gidTables(r.After(time.Hour)))
	})
}

// EFA raises no events, and an event may be lost: GIDInterval finds the change.
func TestAGIDTableIsReadAtItsInterval(t *testing.T) {
	scenario := `
[[gid]]
at = "10s"
`
	for interval, want := range map[time.Duration]int{0: 0, time.Minute: 1} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "efa", scenario)
			r.Options.GIDInterval = interval
			r.Start(nil)
			require.Len(t, gidTables(r.After(9*time.Second)), 1)
			require.Len(t, gidTables(r.After(time.Hour)), want, "%v", interval)
		})
	}
}

func TestAGIDTableThatTheOutboxHadNoRoomForIsSentLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		dev, err := devices.New(r.World).Open("sim0", r.Ledger)
		require.NoError(t, err)
		defer func() { require.NoError(t, dev.Close(time.Second)) }()
		s := newSession(dev, r.Ledger, r.Options)
		for len(s.out.now.items) < outboxLimit {
			s.out.add(verbs.Item{Reading: &verbs.Reading{}})
		}
		sent := make([][]verbs.GID, len(s.ports))
		require.NoError(t, s.readGIDs(sent))
		s.out.takeItems()
		require.NoError(t, s.readGIDs(sent))
		require.Len(t, gidTables(s.out.takeItems()), 1)
		require.NoError(t, s.readGIDs(sent))
		require.Empty(t, gidTables(s.out.takeItems()), "it has not changed")
	})
}

// withoutGIDs is a backend whose devices have no readable GID table.
type withoutGIDs struct{ verbs.Backend }

func (b withoutGIDs) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	d, err := b.Backend.Open(name, led)
	return tablelessDevice{d}, err
}

type tablelessDevice struct{ verbs.Device }

func (tablelessDevice) ReadGIDs(int) (verbs.GIDTable, error) {
	return verbs.GIDTable{}, verbs.ErrNoDevice
}

func TestATableThatCannotBeReadEndsNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.Options.GIDInterval = time.Second
		r.Wrap = func(b verbs.Backend) verbs.Backend { return withoutGIDs{b} }
		r.Start(nil)
		r.After(10 * time.Second)
		items := r.After(time.Minute)
		require.Empty(t, gidTables(items))
		require.NotEmpty(t, sessiontest.Readings(items))
	})
}
