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

	"rdma_events/internal/device/verbs"
)

// Path is the address that a probe's queue pair uses for its own port.
type Path struct {
	GIDIndex int      // 0 unless Global; for MethodFlush the configured index, 0 if it is negative
	Global   bool     // packets have a GRH, with GID as source and destination; else they use the LID
	GID      [16]byte // zero unless Global
}

// gidEntry is one filled entry of a port's GID table.
type gidEntry struct {
	index int
	gid   [16]byte
	v2    bool // RoCE v2
}

// GIDs reads the filled entries of a port's GID table, each with its index and network device.
// It returns ErrNoDevice if there is no such port, and ErrLimit if descriptors are short.
func (s FS) GIDs(device string, port int) ([]verbs.GID, error) {
	entries, err := readGIDs(s.portDir(device, port))
	if err != nil {
		return nil, err
	}
	if !pathExists(s.portDir(device, port), "gids") { // the device may have gone during the reading
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
	s.MarkOtherNetns(gids)
	return gids, nil
}

// MarkOtherNetns sets OtherNetns of the GIDs of a port whose network devices are not in this network namespace. The kernel
// shows the names of these devices, too (print_ndev in drivers/infiniband/core/sysfs.c). If none of the network devices is
// in this namespace, as in a container with a namespace of its own, MarkOtherNetns sets nothing.
func (s FS) MarkOtherNetns(gids []verbs.GID) {
	here := map[string]bool{"": true}
	anyHere := false
	for i := range gids {
		name := gids[i].NetDev
		if _, known := here[name]; !known {
			here[name] = s.hasNetDev(name)
			anyHere = anyHere || here[name]
		}
	}
	for i := range gids {
		gids[i].OtherNetns = anyHere && !here[gids[i].NetDev]
	}
}

// GIDNetDev returns the name of the network device of one entry of a port's GID table.
// It is "" if the entry has none, is empty, or cannot be read.
func (s FS) GIDNetDev(device string, port, index int) string {
	return readAttr(s.portDir(device, port), "gid_attrs/ndevs", strconv.Itoa(index))
}

// ProbePath chooses the GID of a probe. On every link layer it is the GID at c.GIDIndex, if
// that is not negative. If it is negative:
//   - RoCE uses the port's default GID for a connected queue pair (MethodRCWrite), as in
//     DefaultGID and no other, and the best GID for the other methods, as in chooseOwnGID;
//   - InfiniBand uses the LID alone, or its first GID if the port requires a GRH (needsGRH:
//     mlx5's virtual functions, extended LIDs);
//   - efa, whose link layer is unspecified, uses its first GID.
//
// MethodFlush needs neither a GID nor an active port: its path is not Global. ProbePath returns
// ErrUnsupported if the method cannot work on this port now, because of its transport ("iwarp"),
// its state, or a missing GID. Other errors come from reading the table.
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
	gids, err := readGIDs(s.portDir(device, c.Port))
	if err != nil {
		return p, err
	}
	want := c.GIDIndex
	if want < 0 && attr.LinkLayer != verbs.LinkEthernet && len(gids) > 0 {
		want = gids[0].index // the port's own GID; only RoCE has types and addresses to choose from
	}
	entry, ok := s.chooseOwnGID(device, c.Port, gids, want)
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

// Addresses describes the GIDs and P_Keys of a port, and the GID and P_Key that a program would
// choose to exchange datagrams with other hosts.
type Addresses struct {
	GIDs       int        // number of filled entries of the GID table
	GID        netip.Addr // the best GID, as in chooseOwnGID; not valid if there is none
	GIDIndex   int
	PKeys      int  // number of entries of the P_Key table
	PKeyIndex  int  // the first P_Key with full membership, else 0
	FullMember bool // the port has a P_Key with full membership
}

// Addresses reads the whole GID and P_Key tables of a port from sysfs. Tables that cannot be
// read are empty. With some drivers, reading a P_Key is a command to the device: the call then needs
// as many commands as the table has entries, and blocks while the device does not answer.
func (s FS) Addresses(device string, port int) Addresses {
	dir := s.portDir(device, port)
	gids, _ := readGIDs(dir)
	pkeys, _ := readTable(filepath.Join(dir, "pkeys"))
	a := Addresses{GIDs: len(gids), PKeys: len(pkeys), PKeyIndex: firstFullMember(pkeys)}
	a.FullMember = isFullMember(pkeys, a.PKeyIndex)
	if best, ok := s.chooseOwnGID(device, port, gids, -1); ok {
		a.GID, a.GIDIndex = netip.AddrFrom16(best.gid), best.index
	}
	return a
}

// chooseOwnGID is like chooseGID, but prefers the GIDs of this network namespace to those of others, such as a pod's. A probe
// that holds a GID occupies its place in the table, so that the address comes back at another index after it was removed.
func (s FS) chooseOwnGID(device string, port int, entries []gidEntry, want int) (gidEntry, bool) {
	first, ok := chooseGID(entries, want)
	if want >= 0 || !ok || s.isHere(device, port, first) {
		return first, ok
	}
	own := slices.DeleteFunc(slices.Clone(entries), func(e gidEntry) bool { return !s.isHere(device, port, e) })
	if best, ok := chooseGID(own, -1); ok {
		return best, true
	}
	return first, true // no network device of the port is in this namespace
}

// isHere reports whether the network device of an entry is in this network namespace.
func (s FS) isHere(device string, port int, e gidEntry) bool {
	return s.hasNetDev(s.GIDNetDev(device, port, e.index))
}

// chooseGID returns the entry at the wanted index, or with want < 0 the best entry for
// datagrams: RoCE v2 before v1, routable before link local, low index before high. The result
// is false if there is no such entry.
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

// DefaultGID returns the index of the GID that a RoCE port derives from its MAC address,
// not from an address of the host. A GID of a host address is not suitable: if a network
// manager deletes the address and adds it again while a queue pair holds the GID, the
// GID comes back at another index. RoCE v2 is preferred. ok is false if the port has no such
// GID or its table cannot be read. The kernel answers from its own copy of the table, without
// a command to the device.
func (s FS) DefaultGID(device string, port int) (index int, ok bool) {
	entries, err := readGIDs(s.portDir(device, port))
	if err != nil {
		return 0, false
	}
	best, ok := defaultGID(entries)
	return best.index, ok
}

// defaultGID returns the port's default GID: the first link-local one, RoCE v2 before
// v1. The kernel makes it from the MAC address, reserves places for it at the beginning
// of the table (ib_cache_gid_set_default_gid in drivers/infiniband/core/cache.c) and
// keeps it when addresses come and go. A link-local address that was added by hand comes
// after these places. entries must be in the order of their indexes.
func defaultGID(entries []gidEntry) (gidEntry, bool) {
	var local []gidEntry
	for _, e := range entries {
		if netip.AddrFrom16(e.gid).IsLinkLocalUnicast() {
			local = append(local, e)
		}
	}
	return chooseGID(local, -1)
}

// rank orders entries for chooseGID: the greater, the better.
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

// readGIDs reads gids/ and gid_attrs/types/ of a port, and returns the filled entries in the
// order of their indexes. The kernel shows empty entries as zeros, and answers EINVAL for
// their types. An entry whose type cannot be read counts as v1.
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

// firstFullMember returns the index of the first P_Key with full membership, which has its top
// bit set. Without one it returns 0, an index that RoCE always has.
func firstFullMember(pkeys []string) int {
	for i := range pkeys {
		if isFullMember(pkeys, i) {
			return i
		}
	}
	return 0
}

// FirstFullMember returns the index of a port's first P_Key with full membership. It also returns
// 0 if there is no such P_Key or no table. It reads the table only up to that entry: with mlx5 on
// InfiniBand each of 128 entries is a command to the device. The error is one of opening an entry,
// such as ErrLimit.
func (s FS) FirstFullMember(device string, port int) (int, error) {
	dir := filepath.Join(s.portDir(device, port), "pkeys")
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

// PKey returns the P_Key at an index of a port's table. With some drivers that is a command to the device. It returns
// ErrUnsupported if there is no P_Key at the index, or the error of opening the entry, such as ErrLimit.
func (s FS) PKey(device string, port, index int) (uint16, error) {
	text, ok, err := readEntry(filepath.Join(s.portDir(device, port), "pkeys"), index)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(text, 0, 16)
	if !ok || err != nil || v&0x7fff == 0 { // an unused entry is 0
		return 0, fmt.Errorf("%w: the port has no P_Key at index %d", verbs.ErrUnsupported, index)
	}
	return uint16(v), nil
}

// isFullMember reports whether there is a P_Key with full membership at the index.
func isFullMember(pkeys []string, index int) bool {
	if index >= len(pkeys) {
		return false
	}
	v, err := strconv.ParseUint(pkeys[index], 0, 16)
	return err == nil && v&0x8000 != 0
}

// readTable reads a directory of files 0, 1, 2 ... until one is missing. Without the directory
// the table is empty.
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

// readEntry reads file i of a table; ok is false, without an error, if the file does not exist. An
// entry that can be opened but not read is empty. If an existing entry cannot be opened, readEntry
// returns an error: while descriptors are short (ErrLimit), other entries could not be opened
// either.
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
// (parameter netns_mode of ib_core: "N"; "Y" is the shared mode, and kernels without the
// parameter have no other).
func (s FS) ExclusiveNetns() bool {
	exclusive, _ := s.ReadExclusiveNetns()
	return exclusive
}

// ReadExclusiveNetns does the same as ExclusiveNetns, and also returns the error of reading the mode.
func (s FS) ReadExclusiveNetns() (bool, error) {
	mode, err := os.ReadFile(filepath.Join(s.root, "module/ib_core/parameters/netns_mode"))
	return strings.TrimSpace(string(mode)) == "N", err
}

// flushCounters matches the counters of flushed work requests: mlx5's, and mlx4's diag_basic
// (drivers/infiniband/hw/mlx4/main.c), which some devices have for each port.
var flushCounters = []string{
	"ports/*/hw_counters/*_cqe_flush_error", "ports/*/hw_counters/[rs]q_num_wrfe", "hw_counters/[rs]q_num_wrfe",
}

// CountsFlushes reports whether the driver counts flushed work requests; operators set
// alerts on these counters. In a network namespace other than the device's, as in a
// container, sysfs does not show a driver's counters (setup_port in
// drivers/infiniband/core/sysfs.c). CountsFlushes then assumes that drivers that may have
// these counters (mlx5, mlx4) have them, and that other drivers do not. mlx4's virtual
// functions never have them.
func (s FS) CountsFlushes(device string) bool {
	dir := s.deviceDir(device)
	if matchesAny(dir, "ports/*/hw_counters", "hw_counters") {
		return matchesAny(dir, flushCounters...)
	}
	driver := driverOf(dir)
	return driver == "mlx5_core" || driver == verbs.DriverScalable || driver == "mlx4_core" && !s.VirtualFunction(device)
}

// matchesAny reports whether a file or directory below dir matches one of the patterns of
// path.Match, which are relative to dir.
func matchesAny(dir string, patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		return err == nil && len(found) > 0
	})
}
