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

// topBit is the bit of a work request's Q_Key by which the Q_Key of the sending queue pair is used instead (InfiniBand
// specification, 10.2.5).
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
		d.removeFabric(f)
		return nil, verbs.FabricPort{}, err
	}
	port.UD, port.QKey = f.UD()
	return f, port, nil
}

// reserveFabric gives a port's slot of the ledger to a new endpoint. It fails if another endpoint of the port still has it.
func (d *nativeDevice) reserveFabric(port int) (*nativeFabric, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for f := range d.fabrics {
		if f.port == port {
			return nil, fmt.Errorf("%w: the port still has another endpoint for probes between hosts", verbs.ErrLimit)
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

func (d *nativeDevice) removeFabric(f *nativeFabric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.fabrics, f)
}

// open creates the queues.
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
		return fmt.Errorf("%s: %w", callName(r.call), f.d.createFabricError(r))
	}
	for _, n := range numbers[:c.Paths] {
		f.ud = append(f.ud, uint32(n))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.destroyed = false
	return nil
}

// createFabricError returns the error of a verb that could not create its part of an endpoint. Drivers without a type of queue
// pair return EOPNOTSUPP or ENOSYS (efa, mana, qedr).
func (d *nativeDevice) createFabricError(r C.struct_result) error {
	errno := unix.Errno(r.err)
	if callName(r.call) == "ibv_create_qp" && (errno == unix.EOPNOTSUPP || errno == unix.ENOSYS) {
		return fmt.Errorf("%w: %w", verbs.ErrNeverFabric, errno)
	}
	return d.createError(errno)
}

// queryFabricPort returns the description of a port for its peers, and the index of its P_Key. It fails if the port cannot have
// an endpoint now, or never can.
func (d *nativeDevice) queryFabricPort(c verbs.FabricConfig) (port verbs.FabricPort, pkey int, err error) {
	if c.Paths < 1 || c.Paths > verbs.MaxFabricPaths || c.Interval <= 0 {
		return port, 0, fmt.Errorf("%w: %d paths every %v", verbs.ErrUnsupported, c.Paths, c.Interval)
	}
	switch d.attr.Transport {
	case "iwarp", "usnic", "usnic_udp":
		return port, 0, fmt.Errorf("%w: %s", verbs.ErrNeverFabric, d.attr.Transport)
	}
	attr, needsGRH, err := d.queryPort(c.Port)
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

// queryFabricGIDs returns the GIDs from which an endpoint may send, the best first.
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

// maxNetworks is the largest number of announced GIDs of a kind.
const maxNetworks = 8

// chooseFabricGIDs returns the GIDs of a table from which packets may be sent. On InfiniBand that is the GID at index want, or at
// index 0 if want is negative. On Ethernet these are RoCE v2 GIDs, routable ones first. Of the GIDs of the same kind (link-local or
// not, IPv4 or IPv6) it returns the first one, and the first one of each further network on the same network device: package pairs
// then chooses a GID in the peer's network. GIDs on other network devices are left out, because an endpoint is recreated when one of
// its GIDs disappears, and the addresses of containers come and go on network devices of their own.
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
		case k.local || g.NetDev == "" || g.NetDev != f.NetDev || len(networks[k]) == maxNetworks || slices.Contains(networks[k], network):
			continue
		}
		networks[k] = append(networks[k], network)
		gids = append(gids, verbs.FabricGID{Index: g.Index, Raw: g.Raw})
	}
	return gids
}

// networkOf returns the assumed network of a GID, which has no prefix length: /24 for IPv4 and /64 otherwise, as in package pairs.
func networkOf(g verbs.GID) netip.Prefix {
	a, bits := netip.AddrFrom16(g.Raw).Unmap(), 64
	if a.Is4() {
		bits = 24
	}
	network, _ := a.Prefix(bits) // the address has as many bits
	return network
}

// queryFabricPKey returns the index and the value of an endpoint's P_Key.
func (d *nativeDevice) queryFabricPKey(c verbs.FabricConfig) (index int, value uint16, err error) {
	index = c.PKeyIndex
	if index < 0 {
		if index, err = d.pkeys.get(c.Port, func() (int, error) { return d.readPKeys(c.Port) }); err != nil {
			return 0, 0, err
		}
	}
	d.querying.Lock()
	defer d.querying.Unlock()
	d.callControlSysfs(0, func() { value, err = d.sysfs.PKey(d.name, c.Port, index) })
	return index, value, err
}
