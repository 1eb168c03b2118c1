package measure

import (
	"slices"
	"strconv"
	"time"

	"rdma_events/internal/device/expect"
	"rdma_events/internal/device/verbs"
)

// Port is a point of rdma_port. Known is false while the device is not open or does not
// answer. The fields of Attr and the field up are left out then; the state and the
// counters stay.
type Port struct {
	Device   string
	Port     int
	Expected bool   // the port is in expected_down
	Role     string // verbs.RoleCompute or another; "": none
	Known    bool
	HasState bool            // false until the first answer of a query: State is not valid then
	State    verbs.PortState // the state machine's, not Attr.State
	Attr     verbs.PortAttr
	// AlwaysActive: the driver reports State as active, whatever the link does.
	AlwaysActive bool
	Cable        string // verbs.DeviceAttr.Cable
	// RateBestGbps is the greatest rate of the active port that this host remembers, 0 before it was active.
	RateBestGbps float64
	// RateExpectedGbps is the rate that the active port should have at least, 0 if nothing says so.
	RateExpectedGbps float64
	ExpectedUp       bool // the port should be active
	ExpectedReason   expect.Reason
	// Legs are those of the bond below the port, and LegsUp how many of them can carry traffic.
	Legs, LegsUp int
	HasLegs      bool // there is such a bond

	Transitions       uint64
	Flaps             uint64
	FlapsDay          uint64 // of them, within the last 24 hours
	DownNS            int64
	StateAgeNS        int64
	HasStateAge       bool
	MissedTransitions uint64
	PhantomEvents     uint64
	GIDs              int    // of the last reading of the table
	HasGIDs           bool   // a table was read
	GIDMoves          uint64 // GIDs that moved to another index, without link-local ones
	Quality           Quality
	At                time.Time
}

// Quality is the last reading of the quality of a port's link: hourly, and after a drop.
type Quality struct {
	Corrected, Uncorrectable uint64 // blocks that the network device's forward error correction has counted
	// WhileActive are the uncorrectable blocks that came between readings between which the port stayed active.
	WhileActive     uint64
	HasFEC          bool
	SymbolErrors    uint64
	HasSymbolErrors bool
	MilliCelsius    uint64 // of the NIC
	HasTemperature  bool
}

// Up reports whether the port is active. known is false while the device is not open or does not answer, and if the driver's
// answers do not depend on the link.
func (p *Port) Up() (up, known bool) {
	known = p.Known && p.HasState && !p.AlwaysActive && p.State != verbs.PortNop
	return known && p.State == verbs.PortActive, known
}

// addTo adds the port to the sums of its host.
func (p *Port) addTo(h *Host) {
	if up, known := p.Up(); known && !up && p.ExpectedUp {
		h.PortsDown++
	}
}

// Key implements Point.
func (p *Port) Key() Key {
	return Key{Measurement: ports.Name, Device: p.Device, Port: p.Port}
}

// Time implements Point.
func (p *Port) Time() time.Time { return p.At }

// Merge implements Point: the later one replaces this.
func (p *Port) Merge(later Point) { *p = *later.(*Port) }

// Clone implements Point.
func (p *Port) Clone() Point { return clone(p) }

// Events implements Point.
func (*Port) Events() uint64 { return 0 }

// Lines implements Point.
func (p *Port) Lines(add func(Line)) { add(ports.line(p)) }

var ports = table[Port]{
	Metric: Metric{
		Name:    "rdma_port",
		Emitted: onChange,
		Description: "State of a port, driven by its events in the order read and checked by queries. While the " +
			"device is not open there are only the counters and the last state; a device that has been removed leaves " +
			"the state absent, which is neither up nor down: rdma_device tells what is missing.",
	},
	tags: []tag[Port]{
		newTag("device", "name of the RDMA device", func(v *Port) string { return v.Device }),
		newTag("port", "number of the port, from 1", func(v *Port) string { return strconv.Itoa(v.Port) }),
		maybeTag("role", "compute, storage or management; not there on ports without a role", func(v *Port) string { return v.Role }),
		maybeTag("expected", "down, on the ports of expected_down; not there on others", expected),
	},
	fields: slices.Concat(linkRows(), []field[Port]{
		counter("transitions", "state changes", func(v *Port) uint64 { return v.Transitions }),
		counter("flaps", "times the port left active and came back, without being absent",
			func(v *Port) uint64 { return v.Flaps }),
		integer("flaps_day", "", "of these, the ones within the last 24 hours", func(v *Port) int64 { return clip(v.FlapsDay) }),
		cumulative(integer("down_ns", "ns", "time not active since the start, the present outage included, absent excluded",
			func(v *Port) int64 { return v.DownNS })),
		maybe("state_age_ns", "ns", "time in this state; not before the first change",
			func(v *Port) (int64, bool) { return v.StateAgeNS, v.HasStateAge }),
		counter("missed_transitions", "how far link_downed ran ahead of the transitions to down",
			func(v *Port) uint64 { return v.MissedTransitions }),
		counter("phantom_events", "events that named the state already held",
			func(v *Port) uint64 { return v.PhantomEvents }),
		maybe("gids", "", "entries in use of the GID table",
			func(v *Port) (int64, bool) { return int64(v.GIDs), v.Known && v.HasGIDs }),
		counter("gid_moves", "GIDs that came back at another index, or changed it, without link-local ones",
			func(v *Port) uint64 { return v.GIDMoves }),
		cumulative(maybe("link_downed", "", "times the link went down by the driver's own counter; in the directory counters of sysfs it "+
			"has 8 bits and stops at 255 until somebody resets it",
			func(v *Port) (int64, bool) { return clip(v.Attr.LinkDowned), v.Known && v.Attr.HasLinkDowned })),
	}, qualityRows()),
}

func expected(v *Port) string {
	if v.Expected {
		return "down"
	}
	return ""
}

// linkRows returns the fields of one query and of the state machine.
func linkRows() []field[Port] {
	return []field[Port]{
		maybe("state", "", "number of the state (enum ibv_port_state), -1 for absent; not before the first query",
			func(v *Port) (int64, bool) { return int64(v.State), v.HasState }),
		text("state_name", "nop, init, armed, active, active_defer, down or absent", func(v *Port) string {
			if !v.HasState {
				return ""
			}
			return v.State.String()
		}),
		maybe("phys_state", "", "number of the physical state", func(v *Port) (int64, bool) {
			return int64(v.Attr.Phys), v.Known && v.Attr.Phys != 0
		}),
		text("phys_state_name", "the physical state, as in link_up", whenKnown(func(a *verbs.PortAttr) string {
			if a.Phys == 0 {
				return ""
			}
			return a.Phys.String()
		})),
		maybe("up", "", "1 when the port is active, else 0; not while the device is absent or not open, and not with drivers "+
			"whose answer does not depend on the link (efa, and those that answer nop)",
			func(v *Port) (int64, bool) {
				up, known := v.Up()
				return bit(up), known
			}),
		maybe("expected_up", "", "1 if the port should be active: a section expected matches its device, this host remembers that it was active for a "+
			"minute or more, or it has a physical link and has been init or armed for two minutes; 0 for the ports of expected_down and for all others, "+
			"and after a stay in another network namespace until the port is active again; not where up is not",
			func(v *Port) (int64, bool) {
				_, known := v.Up()
				return bit(v.ExpectedUp), known
			}),
		text("link_layer", "infiniband, ethernet or unspecified",
			whenKnown(func(a *verbs.PortAttr) string { return a.LinkLayer.String() })),
		text("cable", "the same for all ports that share one cable, as with Socket Direct and on the hosts of a multi-host NIC; "+
			"not where the device has no system image GUID or no PCI function of its own", func(v *Port) string { return v.Cable }),
		text("netdev", "name of the network device", whenKnown(func(a *verbs.PortAttr) string { return a.NetDev })),
		float("rate_gbps", "Gbit/s", "signalling rate over all lanes", func(v *Port) (float64, bool) {
			return v.Attr.RateGbps, v.Known && v.Attr.RateGbps > 0
		}),
		float("rate_effective_gbps", "Gbit/s", "what the port can carry now: with a LAG, the sum of its active legs; "+
			"not on InfiniBand, and only with rdma-core 62 and a driver that answers ibv_query_port_speed", func(v *Port) (float64, bool) {
			return v.Attr.EffectiveGbps, v.Known && v.Attr.EffectiveGbps > 0
		}),
		float("rate_best_gbps", "Gbit/s", "the greatest rate of the active port that this host remembers, or since another card has this name; "+
			"the present one after the port was forgotten (rdma-events forget)", func(v *Port) (float64, bool) {
			return v.RateBestGbps, v.RateBestGbps > 0
		}),
		float("rate_expected_gbps", "Gbit/s", "the rate that the active port should have at least: rate_gbps of the section expected that names its "+
			"device; else the greatest of rate_best_gbps and the rate of the other active ports of the same board type, link layer and role, if at "+
			"least two thirds of them are faster", func(v *Port) (float64, bool) {
			return v.RateExpectedGbps, v.RateExpectedGbps > 0
		}),
		maybe("legs", "", "legs of the bond or team that the port's network device is, or is a leg of; not without one",
			func(v *Port) (int64, bool) { return int64(v.Legs), v.Known && v.HasLegs }),
		maybe("legs_up", "", "legs that can carry traffic: they have a carrier, the bond has not found them down, and with 802.3ad they are active",
			func(v *Port) (int64, bool) { return int64(v.LegsUp), v.Known && v.HasLegs }),
		text("width", "lanes, as in 4x", whenKnown(func(a *verbs.PortAttr) string { return a.Width })),
		maybe("mtu", "bytes", "active MTU", func(v *Port) (int64, bool) {
			return int64(v.Attr.MTU), v.Known && v.Attr.MTU > 0
		}),
		maybe("lid", "", "local identifier; InfiniBand only", func(v *Port) (int64, bool) {
			return int64(v.Attr.LID), hasLID(v)
		}),
		maybe("sm_lid", "", "local identifier of the subnet manager; InfiniBand only", func(v *Port) (int64, bool) {
			return int64(v.Attr.SMLID), hasLID(v)
		}),
	}
}

// qualityRows returns the fields of the hourly reading. What the device or the driver does not count is left out.
func qualityRows() []field[Port] {
	return []field[Port]{
		cumulative(maybe("fec_corrected_blocks", "blocks", "corrected by the forward error correction of the network device, by its driver's own "+
			"counter; "+
			"read hourly and after a drop, as the next ones; only on Ethernet, from Linux 5.13, with drivers that count it",
			func(v *Port) (int64, bool) { return clip(v.Quality.Corrected), v.Known && v.Quality.HasFEC })),
		cumulative(maybe("fec_uncorrectable_blocks", "blocks", "that were lost since they had too many errors, also while a link comes up",
			func(v *Port) (int64, bool) { return clip(v.Quality.Uncorrectable), v.Known && v.Quality.HasFEC })),
		cumulative(maybe("fec_uncorrectable_active", "blocks", "lost so between two readings between which the port stayed active, since the "+
			"plugin started",
			func(v *Port) (int64, bool) { return clip(v.Quality.WhileActive), v.Quality.HasFEC })),
		cumulative(maybe("symbol_errors", "", "of the physical link, by the driver's own counter symbol_error; only on InfiniBand, "+
			"with each snapshot (evidence.snapshot_interval); the attribute has 16 bits and stops at 65535 until somebody resets it",
			func(v *Port) (int64, bool) { return clip(v.Quality.SymbolErrors), v.Known && v.Quality.HasSymbolErrors })),
		maybe("temperature_celsius", "Celsius", "of the NIC, by the first sensor of its PCI function (hwmon), where its driver has one",
			func(v *Port) (int64, bool) {
				return clip(v.Quality.MilliCelsius / 1000), v.Known && v.Quality.HasTemperature
			}),
	}
}

func hasLID(v *Port) bool { return v.Known && v.Attr.LinkLayer == verbs.LinkInfiniBand }

func whenKnown(value func(*verbs.PortAttr) string) func(*Port) string {
	return func(v *Port) string {
		if !v.Known {
			return ""
		}
		return value(&v.Attr)
	}
}
