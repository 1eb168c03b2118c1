package drivers

import (
	"slices"

	"rdma_events/internal/verbs"
)

// Known is how the facts of a row are known.
type Known int

// The ways of knowing, from the best to the least. A row that names tests in
// Standin is at least ByStandin.
const (
	FromSource Known = iota // read in the driver's source, and not tried
	ByStandin               // tests run against a stand-in that was taught the driver's ways
	InTheLab                // tests run on the driver itself, on a real kernel
)

// String returns the words for a table.
func (k Known) String() string {
	return [...]string{"not tried; read in its source", "a stand-in taught from its source", "run in the lab"}[k]
}

// Driver is one row: a driver, or one of its modes where these differ.
type Driver struct {
	Name   string   // as people call it, with its mode: "irdma, iWARP"
	Kernel []string // what verbs.DeviceAttr.Driver says of its devices
	// Transport is that of verbs.DeviceAttr where a driver has a row for each; "" for any.
	Transport string
	Devices   string // what it drives

	Events     string // asynchronous events that it raises
	Probe      string // what `auto` takes, in its order
	LinkDowned string // whether there is a count of link drops
	Notes      string // sentences for the document; ""

	Known   Known
	Standin []string // tests in internal/verbs/native that teach a stand-in its ways

	// FlushMoves are the hw_counters that the method flush moves.
	FlushMoves []string
	// First is what `auto` tries first of those that the driver can do, on RoCE where
	// its ports have a choice of link layers. Never are the methods that it cannot do.
	First verbs.Method
	Never []verbs.Method
	// Costs is how many commands of the device a call takes at most; calls that
	// are missing take none. Ethernet is for ports of that link layer where they
	// differ; nil: no difference.
	Costs, Ethernet Costs
}

// Costs is how many commands a call is.
type Costs map[Call]int

// Call is a call that is a command to the device with some drivers: its firmware
// is asked and has to answer, which it does not while it hangs.
type Call string

// The calls that the plugin makes while it runs.
const (
	PortQuery  Call = "query_port"  // ibv_query_port
	LinkDowned Call = "link_downed" // reading that counter in sysfs
	CreateAH   Call = "create_ah"
	DestroyAH  Call = "destroy_ah"
	CreateQP   Call = "create_qp"
	ModifyQP   Call = "modify_qp"
	DestroyQP  Call = "destroy_qp"
	PKey       Call = "pkey"       // reading one entry of the P_Key table in sysfs
	HWCounter  Call = "hw_counter" // reading one there; the plugin itself does not
)

// Calls returns all calls in the order above.
func Calls() []Call {
	return []Call{PortQuery, LinkDowned, CreateAH, DestroyAH, CreateQP, ModifyQP, DestroyQP, PKey, HWCounter}
}

// Find returns the row of a device; ok is false for a driver without a row.
func Find(kernel, transport string) (d Driver, ok bool) {
	for _, d := range All() {
		if slices.Contains(d.Kernel, kernel) && (d.Transport == "" || d.Transport == transport) {
			return d, true
		}
	}
	return Driver{}, false
}

// On returns the costs on ports of a link layer.
func (d Driver) On(layer verbs.LinkLayer) Costs {
	if layer == verbs.LinkEthernet && d.Ethernet != nil {
		return d.Ethernet
	}
	return d.Costs
}

// Of returns the commands of some calls.
func (c Costs) Of(asks Asks) int {
	sum := 0
	for call, times := range asks {
		sum += times * c[call]
	}
	return sum
}
