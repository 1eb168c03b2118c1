package sysfs

import (
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
)

func newGIDEntry(index int, addr string, v2 bool) gidEntry {
	return gidEntry{index, netip.MustParseAddr(addr).As16(), v2}
}

func TestTheBestGIDIsRoutableRoCEv2(t *testing.T) {
	table := []gidEntry{
		newGIDEntry(0, "fe80::1", false), newGIDEntry(1, "fe80::1", true),
		newGIDEntry(2, "::ffff:10.0.0.1", false), newGIDEntry(3, "::ffff:10.0.0.1", true), newGIDEntry(4, "2001:db8::1", true),
	}
	best, ok := chooseGID(table, -1)
	require.True(t, ok)
	require.Equal(t, 3, best.index)
	best, ok = chooseGID(table[:2], -1)
	require.True(t, ok)
	require.Equal(t, 1, best.index)
	best, ok = chooseGID(table, 2)
	require.True(t, ok)
	require.Equal(t, 2, best.index)
	_, ok = chooseGID(table, 9)
	require.False(t, ok)
	_, ok = chooseGID(nil, -1)
	require.False(t, ok)
}

func TestTheFirstFullMemberPKeyIsTaken(t *testing.T) {
	require.Equal(t, 2, firstFullMember([]string{"0x0000", "0x7fff", "0xffff", "0x8001"}))
	require.Equal(t, 0, firstFullMember([]string{"0x7fff"}))
	require.Equal(t, 0, firstFullMember(nil))
	for want, table := range [][]string{{"0xffff"}, {"0x7fff", "0xffff"}, {"0x0000", "0x7fff", "0x8001", "0xffff"}} {
		index, err := portTree(t, map[string][]string{"pkeys": table}).FirstFullMember("rxe0", 1)
		require.NoError(t, err)
		require.Equal(t, want, index)
	}
	index, err := portTree(t, map[string][]string{"pkeys": {"0x7fff", "0x0000"}}).FirstFullMember("rxe0", 1)
	require.NoError(t, err)
	require.Zero(t, index)
}

// portTree writes tables of a port as the kernel shows them.
func portTree(t *testing.T, tables map[string][]string) FS {
	t.Helper()
	root := t.TempDir()
	for name, rows := range tables {
		dir := filepath.Join(root, "class/infiniband/rxe0/ports/1", name)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for i, row := range rows {
			require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), []byte(row+"\n"), 0o600))
		}
	}
	return New(root)
}

func TestProbePathDependsOnMethodAndPort(t *testing.T) {
	s := portTree(t, map[string][]string{
		"gids": {
			"0000:0000:0000:0000:0000:0000:0000:0000",
			"fe80:0000:0000:0000:0000:0000:0000:0001",
			"0000:0000:0000:0000:0000:ffff:0a00:0001",
		},
		"gid_attrs/types": {"", "RoCE v2", "RoCE v2"},
		"pkeys":           {"0xffff"},
	})
	auto := verbs.ProbeConfig{ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodRCWrite}, GIDIndex: -1, PKeyIndex: -1}
	active := verbs.PortAttr{State: verbs.PortActive, LinkLayer: verbs.LinkEthernet}

	// A connected queue pair holds its GID, and only the default GID has a reserved place.
	got, err := s.ProbePath("rxe0", auto, active, false, "infiniband")
	require.NoError(t, err)
	require.Equal(t, 1, got.GIDIndex)
	configured, datagrams := auto, auto
	configured.GIDIndex, datagrams.Method = 2, verbs.MethodUDSend
	for _, c := range []verbs.ProbeConfig{configured, datagrams} {
		got, err = s.ProbePath("rxe0", c, active, false, "infiniband")
		require.NoError(t, err)
		require.Equal(t, 2, got.GIDIndex)
	}

	_, err = s.ProbePath("rxe0", auto, verbs.PortAttr{State: verbs.PortDown, LinkLayer: verbs.LinkEthernet}, false, "infiniband")
	require.ErrorIs(t, err, verbs.ErrUnsupported)
	require.ErrorContains(t, err, "a port that is down")
	_, err = s.ProbePath("rxe0", auto, active, false, "iwarp")
	require.ErrorIs(t, err, verbs.ErrUnsupported)
	_, err = s.ProbePath("rxe0", verbs.ProbeConfig{ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodRCWrite}, GIDIndex: 7}, active, false, "infiniband")
	require.ErrorContains(t, err, "no usable GID")

	flush := auto
	flush.Method = verbs.MethodFlush
	_, err = s.ProbePath("rxe0", flush, verbs.PortAttr{State: verbs.PortDown}, false, "iwarp")
	require.NoError(t, err)
	_, err = s.ProbePath("rxe0", auto, verbs.PortAttr{State: verbs.PortActive, LinkLayer: verbs.LinkInfiniBand}, false, "infiniband")
	require.NoError(t, err, "InfiniBand addresses by LID")
}

// The macvlan device of a pod is above the port's network device, and its address is in the port's GID table.
func TestAnAddressOfAPodIsKnownAndNotTaken(t *testing.T) {
	s := portTree(t, map[string][]string{
		"gids": {
			"fe80:0000:0000:0000:0000:0000:0000:0001",
			"0000:0000:0000:0000:0000:ffff:0a00:0001",
			"0000:0000:0000:0000:0000:ffff:0a00:0002",
		},
		"gid_attrs/types": {"RoCE v2", "RoCE v2", "RoCE v2"},
		"gid_attrs/ndevs": {"eth0", "net1", "net1"},
	})
	datagrams := verbs.ProbeConfig{ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodUDSend}, GIDIndex: -1, PKeyIndex: -1}
	chosen := func(c verbs.ProbeConfig) int {
		path, err := s.ProbePath("rxe0", c, verbs.PortAttr{State: verbs.PortActive, LinkLayer: verbs.LinkEthernet}, false, "infiniband")
		require.NoError(t, err)
		return path.GIDIndex
	}
	ofPods := func() (away []bool) {
		gids, err := s.GIDs("rxe0", 1)
		require.NoError(t, err)
		for _, g := range gids {
			away = append(away, g.OtherNetns)
		}
		return away
	}
	require.Equal(t, []bool{false, false, false}, ofPods(), "no network device is visible, as in a container")
	require.Equal(t, 1, chosen(datagrams))

	require.NoError(t, os.MkdirAll(filepath.Join(s.root, "class/net/eth0"), 0o755))
	require.Equal(t, []bool{false, true, true}, ofPods())
	require.Equal(t, 0, chosen(datagrams))
	require.Equal(t, "fe80::1", s.Addresses("rxe0", 1).GID.String())
	wanted := datagrams
	wanted.GIDIndex = 2
	require.Equal(t, 2, chosen(wanted), "the configuration says so")
}

func TestConnectionWithoutDefaultGIDIsRefused(t *testing.T) {
	s := portTree(t, map[string][]string{
		"gids": {"0000:0000:0000:0000:0000:0000:0000:0000", "0000:0000:0000:0000:0000:ffff:0a00:0001"},
	})
	active := verbs.PortAttr{State: verbs.PortActive, LinkLayer: verbs.LinkEthernet}
	_, err := s.ProbePath("rxe0", verbs.ProbeConfig{ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodRCWrite}, GIDIndex: -1}, active, false, "infiniband")
	require.ErrorIs(t, err, verbs.ErrUnsupported)
	require.ErrorContains(t, err, "no default GID")
	_, err = s.ProbePath("rxe0", verbs.ProbeConfig{ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodUDSend}, GIDIndex: -1}, active, false, "infiniband")
	require.NoError(t, err)
}

func TestFlushCounterIsFound(t *testing.T) {
	for counter, want := range map[string]bool{
		"ports/1/hw_counters/resp_cqe_flush_error": true,
		"ports/1/hw_counters/sq_num_wrfe":          true, // mlx4 with counters for each port
		"hw_counters/rq_num_wrfe":                  true, // mlx4 without counters for each port
		"ports/1/hw_counters/rx_write_req":         false,
		"hw_counters/rq_num_rnr":                   false,
	} {
		root := t.TempDir()
		file := filepath.Join(root, "class/infiniband/mlx5_0", counter)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte("0\n"), 0o600))
		require.Equal(t, want, New(root).CountsFlushes("mlx5_0"), counter)
	}
}

func TestHiddenFlushCounterIsAssumedByDriver(t *testing.T) {
	for _, row := range []struct {
		driver   string
		function bool
		want     bool
	}{
		{"mlx5_core", false, true}, {"mlx5_core", true, true}, {"mlx5_core.sf", false, true},
		{"mlx4_core", false, true}, {"mlx4_core", true, false}, {"bnxt_en", false, false},
	} {
		root := t.TempDir()
		device := filepath.Join(root, "class/infiniband/roce0")
		require.NoError(t, os.MkdirAll(filepath.Join(device, "ports/1"), 0o755))
		require.NoError(t, os.MkdirAll(filepath.Join(device, "device"), 0o755))
		require.NoError(t, os.Symlink("/sys/bus/pci/drivers/"+row.driver, filepath.Join(device, "device/driver")))
		if row.function {
			require.NoError(t, os.Symlink("../0000:3b:00.0", filepath.Join(device, "device/physfn")))
		}
		require.Equal(t, row.want, New(root).CountsFlushes("roce0"), "%+v", row)
	}
}

// makeUnreadable makes the opening of a table's entry fail with ELOOP.
func makeUnreadable(t *testing.T, s FS, entry string) {
	t.Helper()
	file := filepath.Join(s.portDir("rxe0", 1), entry)
	require.NoError(t, os.Symlink(file, file))
}

func TestATableThatCannotBeOpenedIsAnErrorAndNoEndlessTable(t *testing.T) {
	s := portTree(t, map[string][]string{"pkeys": {"0x7fff"}})
	makeUnreadable(t, s, "pkeys/1")
	_, err := s.FirstFullMember("rxe0", 1)
	require.ErrorIs(t, err, unix.ELOOP)
	require.ErrorContains(t, err, "pkeys")
}

func TestPKeysAreReadToTheFirstFullMember(t *testing.T) {
	s := portTree(t, map[string][]string{"pkeys": {"0x7fff", "0xffff"}})
	makeUnreadable(t, s, "pkeys/2")
	index, err := s.FirstFullMember("rxe0", 1)
	require.NoError(t, err)
	require.Equal(t, 1, index)
}

func TestAPKeyIsReadAtItsIndex(t *testing.T) {
	s := portTree(t, map[string][]string{"pkeys": {"0x7fff", "0x8001", "0x0000", "?"}})
	makeUnreadable(t, s, "pkeys/4")
	pkey, err := s.PKey("rxe0", 1, 1)
	require.NoError(t, err)
	require.EqualValues(t, 0x8001, pkey)
	for _, index := range []int{2, 3, 5} {
		_, err := s.PKey("rxe0", 1, index)
		require.ErrorIs(t, err, verbs.ErrUnsupported, "index %d", index)
	}
	_, err = s.PKey("rxe0", 1, 4)
	require.ErrorIs(t, err, unix.ELOOP)
}
