package sysfs

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rdma_events/internal/verbs"
)

// Path is the address that a probe's queue pair uses for its own port.
type Path struct {
	GIDIndex int
	Global   bool // with a GRH, from and to GID
	GID      [16]byte
}

// gidEntry is one filled entry of a port's GID table.
type gidEntry struct {
	index int
	gid   [16]byte
	v2    bool // RoCE v2
}

// GIDs reads the GID table of a port, with the network device of each entry. It returns
// ErrNoDevice if there is no such port.
func (s FS) GIDs(device string, port int) ([]verbs.GID, error) {
	entries, err := readGIDs(s.port(device, port))
	if err != nil {
		return nil, err
	}
	if !exists(s.port(device, port), "gids") { // it may have gone while it was read
		return nil, fmt.Errorf("read GID table of port %d of %s: %w", port, device, verbs.ErrNoDevice)
	}
	gids := make([]verbs.GID, 0, len(entries))
	for _, e := range entries {
		g := verbs.GID{Index: e.index, Raw: e.gid, NetDev: s.GIDNetDev(device, port, e.index)}
		switch {
		case e.v2:
			g.Type = verbs.GIDRoCEv2
		case g.NetDev != "": // sysfs has the same name for the two other types
			g.Type = verbs.GIDRoCEv1
		}
		gids = append(gids, g)
	}
	return gids, nil
}

// GIDNetDev returns the name of the network device of one entry of a port's GID table,
// "" if it has none.
func (s FS) GIDNetDev(device string, port, index int) string {
	return readAttr(s.port(device, port), "gid_attrs/ndevs", strconv.Itoa(index))
}

// ProbePath chooses the GID of a probe. Flush needs neither a GID nor an active port.
// InfiniBand uses the LID alone, unless the port asks for a GRH (mlx5's virtual
// functions, extended LIDs) or the configuration names a GID. efa, whose link layer is
// unspecified, uses the GID alone. ErrUnsupported: the method cannot work on this port
// now.
func (s FS) ProbePath(device string, c verbs.ProbeConfig, attr verbs.PortAttr, needsGRH bool, transport string) (Path, error) {
	p := Path{GIDIndex: max(c.GIDIndex, 0)}
	if c.Method == verbs.MethodFlush {
		return p, nil
	}
	if transport == "iwarp" {
		return p, fmt.Errorf("%w: %s on iWARP, whose queue pairs need a connection manager", verbs.ErrUnsupported, c.Method)
	}
	if attr.State != verbs.PortActive {
		return p, fmt.Errorf("%w: %s on a port that is %s", verbs.ErrUnsupported, c.Method, attr.State)
	}
	if p.Global = attr.LinkLayer != verbs.LinkInfiniBand || needsGRH || c.GIDIndex >= 0; !p.Global {
		return p, nil
	}
	gids, err := readGIDs(s.port(device, c.Port))
	if err != nil {
		return p, err
	}
	want := c.GIDIndex
	if want < 0 && attr.LinkLayer != verbs.LinkEthernet && len(gids) > 0 {
		want = gids[0].index // the port's own GID; only RoCE has types and addresses to choose from
	}
	entry, ok := chooseGID(gids, want)
	if want < 0 && c.Method == verbs.MethodRCWrite {
		if entry, ok = defaultGID(gids); !ok {
			return p, fmt.Errorf("%w: the port has no default GID, and a connection through another one would move "+
				"addresses to other indexes", verbs.ErrUnsupported)
		}
	}
	if !ok {
		return p, fmt.Errorf("%w: the port has no usable GID", verbs.ErrUnsupported)
	}
	p.GIDIndex, p.GID = entry.index, entry.gid
	return p, nil
}

// Addresses are the GIDs and P_Keys of a port, and those of them that a probe uses.
type Addresses struct {
	GIDs       int        // number of GIDs of the port
	GID        netip.Addr // the chosen GID; not valid if the port has none
	GIDIndex   int
	PKeys      int
	PKeyIndex  int  // the first P_Key with full membership, else 0
	FullMember bool // the port has a P_Key with full membership
}

// Addresses reads the GID and P_Key tables of a port from sysfs. Tables that cannot be
// read are empty. With some drivers, reading a P_Key is a command to the device.
func (s FS) Addresses(device string, port int) Addresses {
	dir := s.port(device, port)
	gids, _ := readGIDs(dir)
	pkeys, _ := readTable(filepath.Join(dir, "pkeys"))
	a := Addresses{GIDs: len(gids), PKeys: len(pkeys), PKeyIndex: fullMember(pkeys)}
	a.FullMember = isFullMember(pkeys, a.PKeyIndex)
	if best, ok := chooseGID(gids, -1); ok {
		a.GID, a.GIDIndex = netip.AddrFrom16(best.gid), best.index
	}
	return a
}

// chooseGID returns the entry at the wanted index, or with want < 0 the best entry:
// RoCE v2 before v1, routable before link local, low index before high.
func chooseGID(entries []gidEntry, want int) (gidEntry, bool) {
	var best gidEntry
	found, bestRank := false, 0
	for _, e := range entries {
		if want >= 0 && e.index != want {
			continue
		}
		if r := e.rank(); !found || r > bestRank {
			best, bestRank, found = e, r, true
		}
	}
	return best, found
}

// DefaultGID returns the index of the GID that a RoCE port has of its own MAC address,
// not of an address of the host. A GID of a host address is not suitable: if a network
// manager deletes the address and adds it again while a queue pair holds the GID, the
// GID comes back at another index. RoCE v2 is preferred. DefaultGID asks no driver.
func (s FS) DefaultGID(device string, port int) (index int, ok bool) {
	entries, err := readGIDs(s.port(device, port))
	if err != nil {
		return 0, false
	}
	best, ok := defaultGID(entries)
	return best.index, ok
}

// defaultGID returns the port's own GID: the first that is link local, RoCE v2 before
// v1. The kernel makes it from the MAC address, reserves places for it at the beginning
// of the table (ib_cache_gid_set_default_gid in drivers/infiniband/core/cache.c) and
// keeps it when addresses come and go.
func defaultGID(entries []gidEntry) (gidEntry, bool) {
	var local []gidEntry
	for _, e := range entries {
		if netip.AddrFrom16(e.gid).IsLinkLocalUnicast() {
			local = append(local, e)
		}
	}
	return chooseGID(local, -1)
}

func (e gidEntry) rank() int {
	rank := 0
	if e.v2 {
		rank += 2
	}
	if !netip.AddrFrom16(e.gid).IsLinkLocalUnicast() {
		rank++
	}
	return rank
}

// readGIDs reads gids/ and gid_attrs/types/ of a port. The kernel shows empty entries
// as zeros, and answers EINVAL for their types.
func readGIDs(dir string) ([]gidEntry, error) {
	table, err := readTable(filepath.Join(dir, "gids"))
	if err != nil {
		return nil, err
	}
	var entries []gidEntry
	for index, text := range table {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.IsUnspecified() {
			continue
		}
		kind, _ := os.ReadFile(filepath.Join(dir, "gid_attrs/types", strconv.Itoa(index)))
		entries = append(entries, gidEntry{index, addr.As16(), bytes.Contains(kind, []byte("v2"))})
	}
	return entries, nil
}

// fullMember returns the index of the first P_Key with full membership, whose top bit
// is set. Without one it returns 0, an index that RoCE always has.
func fullMember(pkeys []string) int {
	for i := range pkeys {
		if isFullMember(pkeys, i) {
			return i
		}
	}
	return 0
}

// FirstFullMember is fullMember of a port's table. It reads the table only up to that
// entry: on mlx5's InfiniBand each of 128 entries is a command to the device.
func (s FS) FirstFullMember(device string, port int) (int, error) {
	dir := filepath.Join(s.port(device, port), "pkeys")
	for i := 0; ; i++ {
		pkey, ok, err := readEntry(dir, i)
		switch {
		case err != nil:
			return 0, err
		case !ok:
			return 0, nil
		case isFullMember([]string{pkey}, 0):
			return i, nil
		}
	}
}

func isFullMember(pkeys []string, index int) bool {
	if index >= len(pkeys) {
		return false
	}
	v, err := strconv.ParseUint(pkeys[index], 0, 16)
	return err == nil && v&0x8000 != 0
}

// readTable reads a directory of files 0, 1, 2 ... until one is missing.
func readTable(dir string) ([]string, error) {
	var table []string
	for i := 0; ; i++ {
		text, ok, err := readEntry(dir, i)
		if err != nil || !ok {
			return table, err
		}
		table = append(table, text)
	}
}

// readEntry reads file i of a table; ok is false if there is none. An entry that cannot
// be read is empty. An entry that cannot be opened is an error: if descriptors are
// short (ErrLimit), the others could not be opened either.
func readEntry(dir string, i int) (entry string, ok bool, err error) {
	text, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)))
	if os.IsNotExist(err) {
		return "", false, nil
	}
	var failed *os.PathError
	var errno unix.Errno
	if errors.As(err, &failed) && failed.Op == "open" && errors.As(err, &errno) {
		return "", false, fmt.Errorf("read table %s: %w", dir, verbs.FromErrno(errno))
	}
	return strings.TrimSpace(string(text)), true, nil
}

// ExclusiveNetns reports whether each RDMA device belongs to one network namespace
// (parameter netns_mode of ib_core; "Y" is the shared mode).
func (s FS) ExclusiveNetns() bool {
	mode, err := os.ReadFile(filepath.Join(s.root, "module/ib_core/parameters/netns_mode"))
	return err == nil && strings.TrimSpace(string(mode)) == "N"
}

// flushCounters count flushed work requests: those of mlx5, and mlx4's diag_basic
// (drivers/infiniband/hw/mlx4/main.c), which some devices have for each port.
var flushCounters = []string{
	"ports/*/hw_counters/*_cqe_flush_error", "ports/*/hw_counters/[rs]q_num_wrfe", "hw_counters/[rs]q_num_wrfe",
}

// CountsFlushes reports whether the driver counts flushed work requests; operators set
// alerts on these counters. A network namespace that is not the device's own, as in a
// container, does not show a driver's counters (setup_port in
// drivers/infiniband/core/sysfs.c). There the result depends on the driver: a driver
// that can have them is assumed to have them. mlx4's virtual functions never have them.
func (s FS) CountsFlushes(device string) bool {
	dir := s.device(device)
	if anyFile(dir, "ports/*/hw_counters", "hw_counters") {
		return anyFile(dir, flushCounters...)
	}
	driver := driverOf(dir)
	return driver == "mlx5_core" || driver == "mlx4_core" && !s.VirtualFunction(device)
}

// anyFile reports whether a file below dir matches a pattern of path.Match.
func anyFile(dir string, patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		return err == nil && len(found) > 0
	})
}
