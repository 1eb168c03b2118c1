package measure

import (
	"slices"
	"strconv"
	"time"

	"rdma_events/internal/device/expect"
	"rdma_events/internal/device/verbs"
)

// Port is a point of rdma_port. Known is false while the device is not open or does not
// answer. The line then has the state and the counters, but neither the field up nor the
// fields of Attr.
type Port struct {
	Device   string
	Port     int
	Expected bool   // the port is in expected_down
	Role     string // verbs.RoleCompute or another role; "": none
	Known    bool
	// Restricted is set if the firmware refuses queries of the port because the function is restricted. The port is then healthy, as far as can be known.
	Restricted bool
	HasState   bool            // State is valid: a query has been answered
	State      verbs.PortState // state of the state machine, not Attr.State
	Attr       verbs.PortAttr
	// AlwaysActive is set if the driver reports the port as active regardless of the link.
	AlwaysActive bool
	Cable        string // verbs.DeviceAttr.Cable
	// RateBestGbps is the greatest rate of the active port that this host remembers. It is 0 until the port has been active.
	RateBestGbps float64
	// RateExpectedGbps is the rate that the active port should have at least. It is 0 if there is no expectation.
	RateExpectedGbps float64
	ExpectedUp       bool // the port should be active
	ExpectedReason   expect.Reason
	// Legs is the number of legs of the bond below the port. LegsUp is the number of legs that can carry traffic.
	Legs, LegsUp int
	HasLegs      bool // there is a bond

	Transitions       uint64
	Flaps             uint64
	FlapsDay          uint64 // flaps within the last 24 hours
	DownNS            int64
	StateAgeNS        int64
	HasStateAge       bool
	MissedTransitions uint64
	PhantomEvents     uint64
	GIDs              int    // entries in use, at the last reading of the GID table
	HasGIDs           bool   // the GID table has been read
	GIDMoves          uint64 // GIDs that moved to another index, without link-local GIDs and those of other network namespaces
	Quality           Quality
	At                time.Time
}

// Quality is the last reading of the quality of a port's link. The plugin reads it hourly, and after the link drops.
type Quality struct {
	Corrected, Uncorrectable uint64 // blocks, as counted by the network device's forward error correction
	// WhileActive counts the uncorrectable blocks between two readings during which the port stayed active.
	WhileActive     uint64
	HasFEC          bool
	SymbolErrors    uint64
	HasSymbolErrors bool
	MilliCelsius    uint64 // of the NIC
	HasTemperature  bool
}

// Up reports whether the port is active. known is false while the device is not open or does not answer, and if the driver
// reports a state that does not depend on the link.
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
	return Key{Measurement: portTable.Name, Device: p.Device, Port: p.Port}
}

// Time implements Point.
func (p *Port) Time() time.Time { return p.At }

// Merge implements Point. The later point replaces this one.
func (p *Port) Merge(later Point) { *p = *later.(*Port) }

// Clone implements Point.
func (p *Port) Clone() Point { return clone(p) }

// Events implements Point.
func (*Port) Events() uint64 { return 0 }

// Lines implements Point.
func (p *Port) Lines(add func(Line)) { add(portTable.line(p)) }

var portTable = table[Port]{
	Metric: Metric{
		Name:    "rdma_port",
		Emitted: onChange,
		Description: "State of a port. The events of the port change it, in the order in which they are read, and queries check it. " +
			"While the device is not open, only the counters and the last state are present. After the device has been removed, " +
			"the state is absent, which is neither up nor down; rdma_device tells which devices are missing.",
	},
	tags: []tag[Port]{
		requiredTag("device", "name of the RDMA device", func(v *Port) string { return v.Device }),
		requiredTag("port", "number of the port, from 1", func(v *Port) string { return strconv.Itoa(v.Port) }),
		optionalTag("role", "compute, storage or management; only on ports with a role", func(v *Port) string { return v.Role }),
		optionalTag("expected", "down, on the ports of expected_down; not on other ports", expectedTag),
	},
	fields: slices.Concat(portStateFields(), []field[Port]{
		counter("transitions", "state changes", func(v *Port) uint64 { return v.Transitions }),
		counter("flaps", "times the port left the state active and became active again without being absent in between",
			func(v *Port) uint64 { return v.Flaps }),
		requiredInt("flaps_day", "", "flaps within the last 24 hours", func(v *Port) int64 { return clampToInt64(v.FlapsDay) }),
		markCumulative(requiredInt("down_ns", "ns", "time not active since the plugin started, including the current outage, excluding the state absent",
			func(v *Port) int64 { return v.DownNS })),
		optionalInt("state_age_ns", "ns", "time in the current state; not before the first change",
			func(v *Port) (int64, bool) { return v.StateAgeNS, v.HasStateAge }),
		counter("missed_transitions", "state changes that the plugin missed: the increase of link_downed beyond the transitions to down",
			func(v *Port) uint64 { return v.MissedTransitions }),
		counter("phantom_events", "events that reported the state that the port already had",
			func(v *Port) uint64 { return v.PhantomEvents }),
		optionalInt("gids", "", "entries in use in the GID table",
			func(v *Port) (int64, bool) { return int64(v.GIDs), v.Known && v.HasGIDs }),
		counter("gid_moves", "GIDs that moved to another index or came back at another one, without link-local GIDs and those of "+
			"other network namespaces",
			func(v *Port) uint64 { return v.GIDMoves }),
		markCumulative(optionalInt("link_downed", "", "times the link went down, from the counter of the driver; the counter in the sysfs directory "+
			"counters has 8 bits and stops at 255 until someone resets it",
			func(v *Port) (int64, bool) { return clampToInt64(v.Attr.LinkDowned), v.Known && v.Attr.HasLinkDowned })),
	}, qualityFields()),
}

func expectedTag(v *Port) string {
	if v.Expected {
		return "down"
	}
	return ""
}

// portStateFields returns the fields that come from a query and from the state machine.
func portStateFields() []field[Port] {
	return []field[Port]{
		optionalInt("state", "", "number of the state (enum ibv_port_state), or -1 for absent; not before the first query",
			func(v *Port) (int64, bool) { return int64(v.State), v.HasState }),
		optionalText("state_name", "name of the state: nop, init, armed, active, active_defer, down or absent", func(v *Port) string {
			if !v.HasState {
				return ""
			}
			return v.State.String()
		}),
		optionalInt("phys_state", "", "number of the physical state", func(v *Port) (int64, bool) {
			return int64(v.Attr.Phys), v.Known && v.Attr.Phys != 0
		}),
		optionalText("phys_state_name", "name of the physical state, such as link_up", ifKnown(func(a *verbs.PortAttr) string {
			if a.Phys == 0 {
				return ""
			}
			return a.Phys.String()
		})),
		optionalInt("up", "", "1 if the port is active, else 0; not while the device is absent or not open, and not with drivers "+
			"that report a state regardless of the link (efa, and drivers that report nop)",
			func(v *Port) (int64, bool) {
				up, known := v.Up()
				return boolToInt(up), known
			}),
		optionalInt("expected_up", "", "1 if the port should be active: a section expected matches its device, this host remembers that it was active for a "+
			"minute or more, or it has a physical link and has been init or armed for two minutes; 0 for all other ports, for the ports of expected_down, "+
			"for representors, after a stay in another network namespace until the port is active again, and while the device is not open; not with "+
			"drivers that report a state regardless of the link",
			func(v *Port) (int64, bool) {
				_, known := v.Up()
				return boolToInt(known && v.ExpectedUp), !v.AlwaysActive && v.State != verbs.PortNop
			}),
		optionalText("link_layer", "link layer: infiniband, ethernet or unspecified",
			ifKnown(func(a *verbs.PortAttr) string { return a.LinkLayer.String() })),
		optionalText("cable", "identifier that is equal for all ports that share a cable, as with Socket Direct and on the hosts of a multi-host "+
			"NIC; not if the device has no system image GUID or no PCI function of its own", func(v *Port) string { return v.Cable }),
		optionalText("netdev", "name of the network device", ifKnown(func(a *verbs.PortAttr) string { return a.NetDev })),
		optionalFloat("rate_gbps", "Gbit/s", "signalling rate over all lanes", func(v *Port) (float64, bool) {
			return v.Attr.RateGbps, v.Known && v.Attr.RateGbps > 0
		}),
		optionalFloat("rate_effective_gbps", "Gbit/s", "rate that the port can carry now; with a LAG, the sum of its active legs; "+
			"not on InfiniBand, and only with rdma-core 62 and a driver that answers ibv_query_port_speed", func(v *Port) (float64, bool) {
			return v.Attr.EffectiveGbps, v.Known && v.Attr.EffectiveGbps > 0
		}),
		optionalFloat("rate_best_gbps", "Gbit/s", "greatest rate of the active port that this host remembers; starts again when another card has the "+
			"device's name, and from the current rate after rdma-events forget", func(v *Port) (float64, bool) {
			return v.RateBestGbps, v.RateBestGbps > 0
		}),
		optionalFloat("rate_expected_gbps", "Gbit/s", "rate that the active port should have at least: rate_gbps of the section expected that matches its "+
			"device; otherwise the greater of rate_best_gbps and, if at least two thirds of them are faster, the rate of the other active ports with "+
			"the same board type, link layer and role", func(v *Port) (float64, bool) {
			return v.RateExpectedGbps, v.RateExpectedGbps > 0
		}),
		optionalInt("legs", "", "legs of the bond or team that the port's network device is or belongs to; only with a bond or team",
			func(v *Port) (int64, bool) { return int64(v.Legs), v.Known && v.HasLegs }),
		optionalInt("legs_up", "", "legs that can carry traffic: they have a carrier, the bond has not found them down, and with 802.3ad they are active; "+
			"only with a bond or team",
			func(v *Port) (int64, bool) { return int64(v.LegsUp), v.Known && v.HasLegs }),
		optionalText("width", "number of lanes, such as 4x", ifKnown(func(a *verbs.PortAttr) string { return a.Width })),
		optionalInt("mtu", "bytes", "active MTU", func(v *Port) (int64, bool) {
			return int64(v.Attr.MTU), v.Known && v.Attr.MTU > 0
		}),
		optionalInt("lid", "", "local identifier (LID); InfiniBand only", func(v *Port) (int64, bool) {
			return int64(v.Attr.LID), hasLID(v)
		}),
		optionalInt("sm_lid", "", "LID of the subnet manager; InfiniBand only", func(v *Port) (int64, bool) {
			return int64(v.Attr.SMLID), hasLID(v)
		}),
	}
}

// qualityFields returns the fields of the hourly quality reading. A field is left out if the device or the driver does not count it.
func qualityFields() []field[Port] {
	return []field[Port]{
		markCumulative(optionalInt("fec_corrected_blocks", "blocks", "blocks corrected by the forward error correction of the network device, from the counter of "+
			"the driver; read hourly and after a drop of the link; only on Ethernet, from Linux 5.13, with drivers that count them",
			func(v *Port) (int64, bool) { return clampToInt64(v.Quality.Corrected), v.Known && v.Quality.HasFEC })),
		markCumulative(optionalInt("fec_uncorrectable_blocks", "blocks", "blocks lost because they had too many errors, including those lost while a link comes up; "+
			"read together with fec_corrected_blocks",
			func(v *Port) (int64, bool) { return clampToInt64(v.Quality.Uncorrectable), v.Known && v.Quality.HasFEC })),
		markCumulative(optionalInt("fec_uncorrectable_active", "blocks", "uncorrectable blocks counted between two readings during which the port stayed active, "+
			"since the plugin started",
			func(v *Port) (int64, bool) { return clampToInt64(v.Quality.WhileActive), v.Quality.HasFEC })),
		markCumulative(optionalInt("symbol_errors", "", "symbol errors of the physical link, from the counter symbol_error of the driver; only on InfiniBand; "+
			"read with each snapshot (evidence.snapshot_interval); the attribute has 16 bits and stops at 65535 until someone resets it",
			func(v *Port) (int64, bool) {
				return clampToInt64(v.Quality.SymbolErrors), v.Known && v.Quality.HasSymbolErrors
			})),
		optionalInt("temperature_celsius", "Celsius", "temperature of the NIC, from the first sensor of its PCI function (hwmon), if its driver provides one",
			func(v *Port) (int64, bool) {
				return clampToInt64(v.Quality.MilliCelsius / 1000), v.Known && v.Quality.HasTemperature
			}),
	}
}

func hasLID(v *Port) bool { return v.Known && v.Attr.LinkLayer == verbs.LinkInfiniBand }

func ifKnown(value func(*verbs.PortAttr) string) func(*Port) string {
	return func(v *Port) string {
		if !v.Known {
			return ""
		}
		return value(&v.Attr)
	}
}
