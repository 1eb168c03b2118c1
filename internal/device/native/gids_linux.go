//go:build linux && cgo

package native

// #include "native.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

// The numbers of GIDs for which the library is called: first as many as most devices have,
// then the maximum. The kernel answers EINVAL if there are more (rdma_query_gid_table in
// drivers/infiniband/core/cache.c). Larger tables are read from sysfs, which takes 0.3 ms for
// each entry.
const (
	fewGIDs = 64
	maxGIDs = 1024
)

// ReadGIDs implements verbs.Device. It asks the library for the whole table, and reads sysfs if
// the library or the kernel does not support that, or if the device has more than maxGIDs.
func (d *nativeDevice) ReadGIDs(port int) (verbs.GIDTable, error) {
	if err := d.enter(); err != nil {
		return verbs.GIDTable{}, verbs.NewOpError("ibv_query_gid_table", d.name, port, err)
	}
	defer d.leave()
	if port < 1 || port > d.attr.Ports {
		err := fmt.Errorf("%w: the device has %d ports", verbs.ErrUnsupported, d.attr.Ports)
		return verbs.GIDTable{}, verbs.NewOpError("ibv_query_gid_table", d.name, port, err)
	}
	t := verbs.GIDTable{Port: port, Mono: clock.Monotonic(), Probed: d.probedGIDs(port)}
	var err error
	if t.Entries, err = d.queryGIDs(port); err != nil && !errors.Is(err, verbs.ErrNoDevice) {
		t.Entries, err = d.sysfs.GIDs(d.name, port)
	}
	return t, verbs.NewOpError("ibv_query_gid_table", d.name, port, err)
}

func (d *nativeDevice) queryGIDs(port int) ([]verbs.GID, error) {
	var table []C.struct_gid_entry
	n := -C.int(unix.EINVAL)
	for _, room := range []int{fewGIDs, maxGIDs} {
		if n == -C.int(unix.EINVAL) {
			table = make([]C.struct_gid_entry, room)
			n = C.native_gids(d.c, &table[0], C.int(room))
		}
	}
	if n < 0 {
		return nil, d.commandError(unix.Errno(-n))
	}
	var gids []verbs.GID
	for i := range table[:n] {
		e := &table[i]
		if int(e.port) != port {
			continue
		}
		g := verbs.GID{
			Index: int(e.index), Type: verbs.GIDType(e._type),
			Raw: *(*[16]byte)(unsafe.Pointer(&e.gid)),
		}
		if e.ifindex != 0 { // the index does not identify the network device: one in another network namespace may have the same
			g.NetDev = d.sysfs.GIDNetDev(d.name, port, g.Index)
		}
		gids = append(gids, g)
	}
	slices.SortFunc(gids, func(a, b verbs.GID) int { return a.Index - b.Index })
	d.sysfs.MarkOtherNetns(gids)
	return gids, nil
}

// probedGIDs returns the indexes of the source GIDs of a port's open probes.
func (d *nativeDevice) probedGIDs(port int) []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	var indexes []int
	for p := range d.probes {
		if p.port == port && p.gidIndex >= 0 && !slices.Contains(indexes, p.gidIndex) {
			indexes = append(indexes, p.gidIndex)
		}
	}
	slices.Sort(indexes)
	return indexes
}
