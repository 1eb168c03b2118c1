//go:build linux && cgo

package native

// #include "native.h"
import "C"

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/verdict"
)

// topBit of a Q_Key says that the sender's queue pair gives it, not the work request (InfiniBand specification, 10.2.5).
const topBit = 1 << 31

// NewFabricEndpoint implements verbs.Device.
func (d *nativeDevice) NewFabricEndpoint(c verbs.FabricConfig) (verbs.FabricEndpoint, verbs.FabricPort, error) {
	f, port, err := d.newFabric(c)
	if err != nil {
		return nil, verbs.FabricPort{}, verbs.NewOpError("new fabric", d.name, c.Port, err)
	}
	return f, port, nil
}

func (d *nativeDevice) newFabric(c verbs.FabricConfig) (*nativeFabric, verbs.FabricPort, error) {
	if err := d.enter(); err != nil {
		return nil, verbs.FabricPort{}, err
	}
	defer d.leave()
	port, pkey, err := d.queryFabricPort(c)
	if err != nil {
		return nil, verbs.FabricPort{}, err
	}
	f, err := d.reserveFabric(c.Port)
	if err != nil {
		return nil, verbs.FabricPort{}, err
	}
	if err := f.open(c, pkey); err != nil {
		d.forgetFabric(f)
		return nil, verbs.FabricPort{}, err
	}
	port.UD, port.QKey = f.UD()
	return f, port, nil
}

// reserveFabric gives a port's part of the ledger to a new Fabric, unless another one of the port still has it.
func (d *nativeDevice) reserveFabric(port int) (*nativeFabric, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for f := range d.fabrics {
		if f.port == port {
			return nil, fmt.Errorf("%w: the port has another Fabric, which is not closed", verbs.ErrLimit)
		}
	}
	slot, err := d.led.AddFabric(port)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", verbs.ErrLimit, err)
	}
	f := &nativeFabric{d: d, port: port, slot: slot, destroyed: true, running: newToken(), ordering: newToken()}
	if d.fabrics == nil {
		d.fabrics = map[*nativeFabric]struct{}{}
	}
	d.fabrics[f] = struct{}{}
	return f, nil
}

func (d *nativeDevice) forgetFabric(f *nativeFabric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.fabrics, f)
}

// open makes the queues.
func (f *nativeFabric) open(c verbs.FabricConfig, pkey int) error {
	var random [4]byte
	if _, err := rand.Read(random[:]); err != nil {
		return fmt.Errorf("choose a Q_Key: %w", err)
	}
	f.qkey = binary.NativeEndian.Uint32(random[:]) &^ topBit
	cfg := C.struct_fabric_config{
		port: C.int32_t(c.Port), slot: C.int32_t(f.slot), paths: C.int32_t(c.Paths), pkey_index: C.int32_t(pkey),
		service_level: C.int32_t(c.ServiceLevel), traffic_class: C.int32_t(c.TrafficClass),
		qkey: C.uint32_t(f.qkey), interval_ns: C.int64_t(c.Interval),
		missing_ns: C.int64_t(verdict.MissingAfter), write_silent_ns: C.int64_t(verdict.WriteSilentAfter),
		more_probes: verdict.MoreProbes, more_ns: C.int64_t(verdict.MoreEvery), late_ns: C.int64_t(verdict.LateAfter),
	}
	var numbers [verbs.MaxFabricPaths]C.uint32_t
	if r := C.native_fabric_open(f.d.c, &cfg, &f.c, &numbers[0]); r.err != 0 {
		return fmt.Errorf("%s: %w", callName(r.call), f.d.unmadeFabric(r))
	}
	for _, n := range numbers[:c.Paths] {
		f.ud = append(f.ud, uint32(n))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.destroyed = false
	return nil
}

// unmadeFabric returns the error of a verb that could not make its part of a Fabric. Drivers without queue pairs of a kind say
// so (efa, mana, qedr).
func (d *nativeDevice) unmadeFabric(r C.struct_result) error {
	errno := unix.Errno(r.err)
	if callName(r.call) == "ibv_create_qp" && (errno == unix.EOPNOTSUPP || errno == unix.ENOSYS) {
		return fmt.Errorf("%w: %w", verbs.ErrNeverFabric, errno)
	}
	return d.unmade(errno)
}

// queryFabricPort returns what peers have to know of a port that can have a Fabric, and the index of its P_Key.
func (d *nativeDevice) queryFabricPort(c verbs.FabricConfig) (port verbs.FabricPort, pkey int, err error) {
	if c.Paths < 1 || c.Paths > verbs.MaxFabricPaths || c.Interval <= 0 {
		return port, 0, fmt.Errorf("%w: %d paths every %v", verbs.ErrUnsupported, c.Paths, c.Interval)
	}
	switch d.attr.Transport {
	case "iwarp", "usnic", "usnic_udp":
		return port, 0, fmt.Errorf("%w: %s", verbs.ErrNeverFabric, d.attr.Transport)
	}
	attr, needsGRH, err := d.query(c.Port)
	if err != nil {
		return port, 0, fmt.Errorf("ibv_query_port: %w", err)
	}
	port = verbs.FabricPort{Port: c.Port, LinkLayer: attr.LinkLayer, LID: attr.LID, MTU: attr.MTU, NeedsGRH: needsGRH}
	if port.LinkLayer == verbs.LinkUnspecified {
		return port, 0, fmt.Errorf("%w: its link layer is neither InfiniBand nor Ethernet", verbs.ErrNeverFabric)
	}
	if attr.State != verbs.PortActive {
		return port, 0, fmt.Errorf("%w: the port is %s", verbs.ErrUnsupported, attr.State)
	}
	if port.GIDs, err = d.queryFabricGIDs(c, port); err != nil {
		return port, 0, err
	}
	pkey, port.PKey, err = d.queryFabricPKey(c)
	return port, pkey, err
}

// queryFabricGIDs returns the GIDs that a Fabric may send from, the best first.
func (d *nativeDevice) queryFabricGIDs(c verbs.FabricConfig, port verbs.FabricPort) ([]verbs.FabricGID, error) {
	table, err := d.queryGIDs(c.Port)
	if err != nil && !errors.Is(err, verbs.ErrNoDevice) {
		table, err = d.sysfs.GIDs(d.name, c.Port)
	}
	if err != nil {
		return nil, fmt.Errorf("ibv_query_gid_table: %w", err)
	}
	gids := chooseFabricGIDs(table, c.GIDIndex, port.LinkLayer)
	switch {
	case len(gids) > 0:
		return gids, nil
	case c.GIDIndex >= 0:
		return nil, fmt.Errorf("%w: the port has no GID at index %d that fits (on Ethernet one of RoCE v2)",
			verbs.ErrUnsupported, c.GIDIndex)
	case port.LinkLayer == verbs.LinkEthernet:
		return nil, fmt.Errorf("%w: the port has no GID of RoCE v2; has its network device an address?", verbs.ErrUnsupported)
	case port.NeedsGRH:
		return nil, fmt.Errorf("%w: the port needs a GRH in every packet, and has no GID at index 0", verbs.ErrUnsupported)
	}
	return nil, nil
}

// mostNetworks limits how many GIDs of a kind are announced.
const mostNetworks = 8

// chooseFabricGIDs returns those GIDs of a table that packets may be sent from: on InfiniBand the one at index want, 0 if that is
// negative; on Ethernet those of RoCE v2, routable ones first. Of those that reach the same kind of GID it returns the first, and the
// first of each other network that the same network device has: the keeper of the pairs chooses one in the network of the peer. A Fabric is
// made anew when one of its GIDs goes, so the addresses of containers, which come and go on devices of their own, concern no pair.
func chooseFabricGIDs(table []verbs.GID, want int, layer verbs.LinkLayer) []verbs.FabricGID {
	if layer == verbs.LinkInfiniBand {
		want = max(want, 0)
	}
	fit := slices.DeleteFunc(slices.Clone(table), func(g verbs.GID) bool {
		return want >= 0 && g.Index != want || layer == verbs.LinkEthernet && g.Type != verbs.GIDRoCEv2
	})
	local := func(g verbs.GID) int {
		if g.IsLinkLocal() {
			return 1
		}
		return 0
	}
	slices.SortFunc(fit, func(a, b verbs.GID) int { return cmp.Or(local(a)-local(b), a.Index-b.Index) })
	type kind struct{ local, v4 bool }
	first := map[kind]verbs.GID{}
	networks := map[kind][]netip.Prefix{}
	var gids []verbs.FabricGID
	for _, g := range fit {
		k := kind{g.IsLinkLocal(), netip.AddrFrom16(g.Raw).Is4In6()}
		network := networkOf(g)
		switch f, more := first[k]; {
		case !more:
			first[k] = g
		case k.local || g.NetDev == "" || g.NetDev != f.NetDev || len(networks[k]) == mostNetworks || slices.Contains(networks[k], network):
			continue
		}
		networks[k] = append(networks[k], network)
		gids = append(gids, verbs.FabricGID{Index: g.Index, Raw: g.Raw})
	}
	return gids
}

// networkOf returns the network that a GID is assumed to be in, as package pairs does: a GID has no prefix length.
func networkOf(g verbs.GID) netip.Prefix {
	a, bits := netip.AddrFrom16(g.Raw).Unmap(), 64
	if a.Is4() {
		bits = 24
	}
	network, _ := a.Prefix(bits) // the address has as many bits
	return network
}

// queryFabricPKey returns the index and the value of the P_Key that a Fabric uses.
func (d *nativeDevice) queryFabricPKey(c verbs.FabricConfig) (index int, value uint16, err error) {
	index = c.PKeyIndex
	if index < 0 {
		if index, err = d.pkeys.get(c.Port, func() (int, error) { return d.readPKeys(c.Port) }); err != nil {
			return 0, 0, err
		}
	}
	d.querying.Lock()
	defer d.querying.Unlock()
	d.readSysfs(0, func() { value, err = d.sysfs.PKey(d.name, c.Port, index) })
	return index, value, err
}
