package hardware

import (
	"slices"
	"time"
)

// Schema is the version of the file's format. It is increased when a member is
// removed or changes its meaning.
const Schema = 1

// Report is the content of the file. It contains no GUID, GID, MAC or IP address, LID, serial number, host name or
// program name.
type Report struct {
	Schema    int       `json:"schema"`
	Made      time.Time `json:"made"` // UTC
	Simulated bool      `json:"simulated"`
	TookNS    int64     `json:"took_ns"`
	Versions  Versions  `json:"versions"`
	Device    Device    `json:"device"`
	InUse     InUse     `json:"in_use"`
	Allowed   Allowed   `json:"allowed"`
	Methods   []Method  `json:"methods"`
	Auto      []Auto    `json:"auto"`
	Commands  []Timed   `json:"commands"`
	Events    []Event   `json:"events"` // from the whole run
	Flap      *Flap     `json:"flap,omitempty"`
	Counters  []Counter `json:"counters"`
	Problems  []string  `json:"problems"` // parts that failed, and why
}

// Versions contains the versions of the software that drives the device. "" means unknown, except for libibverbs, where
// it is "unknown".
type Versions struct {
	Plugin    string `json:"rdma_events"`
	Kernel    string `json:"kernel"`
	Verbs     string `json:"libibverbs"`
	Provider  string `json:"provider"`
	ABI       string `json:"provider_abi"`
	UverbsABI string `json:"uverbs_abi"` // of the kernel's interface
}

// Device is the device that was tried.
type Device struct {
	Name            string `json:"name"`
	Row             string `json:"row"` // of docs/reference/compatibility.md; "" for a driver without one
	Driver          string `json:"driver"`
	Transport       string `json:"transport"`
	Firmware        string `json:"firmware"`
	Board           string `json:"board_id"` // the type of card
	Type            string `json:"hca_type"`
	PCIVendor       string `json:"pci_vendor"`
	PCIDevice       string `json:"pci_device"`
	VirtualFunction bool   `json:"virtual_function"`
	Vectors         int    `json:"vectors"`
	RaisesEvents    bool   `json:"events_supported"`
	CountsFlushes   bool   `json:"counts_flushes"`
	Ports           []Port `json:"ports"`
}

// Port contains the attributes of a port from the first queries.
type Port struct {
	Port          int     `json:"port"`
	LinkLayer     string  `json:"link_layer"`
	State         string  `json:"state"`
	Phys          string  `json:"phys_state"`
	MTU           int     `json:"mtu"`
	Width         string  `json:"width"`
	RateGbps      float64 `json:"rate_gbps"`
	HasLID        bool    `json:"has_lid"`
	HasLinkDowned bool    `json:"has_link_downed"`
	GIDs          int     `json:"gids"`
	DefaultGID    int     `json:"default_gid"` // its index; -1 if there is none
	PKeys         int     `json:"pkeys"`
}

// InUse describes the other users of the device at the start of the run.
type InUse struct {
	Known      bool     `json:"known"`
	QueuePairs int      `json:"queue_pairs"` // of all users, including the kernel
	Kernel     []string `json:"kernel"`      // modules with protection domains
	Programs   int      `json:"programs"`    // other processes with protection domains
	Plugin     int      `json:"plugin"`      // workers of this plugin
}

// Allowed lists the actions that the operator agreed to.
type Allowed struct {
	InUse   bool `json:"in_use"` // to try a device that others use
	RCWrite bool `json:"rc_write"`
	Flush   bool `json:"flush"`
	Flap    bool `json:"flap"`
}

// Method contains the results of one probe method on one port.
type Method struct {
	Port     int              `json:"port"`
	Method   string           `json:"method"`
	Tried    bool             `json:"tried"`
	Why      string           `json:"why,omitempty"` // why it was not tried, was refused or is incomplete
	Rounds   int              `json:"rounds"`
	Outcomes map[string]int   `json:"outcomes"`
	Statuses map[string]int   `json:"statuses,omitempty"` // of rounds that did not succeed
	Events   uint64           `json:"events"`             // completion events read
	Acked    uint64           `json:"acked"`
	Spurious uint64           `json:"spurious"` // events without a completion
	Late     uint64           `json:"late"`     // events that arrived after their round had timed out
	Stages   map[string]Times `json:"stages"`   // of good rounds, from the time stamps in C
	PaceNS   int64            `json:"pace_ns"`  // time between two rounds
}

// Auto is the method that `auto` chose on one port.
type Auto struct {
	Port   int    `json:"port"`
	Tried  bool   `json:"tried"`
	Why    string `json:"why,omitempty"`
	Method string `json:"method,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Timed contains the durations of one call. With some drivers the call sends commands to the device.
type Timed struct {
	Call     string `json:"call"`
	Port     int    `json:"port"`
	Commands int    `json:"commands"` // maximum per call according to the table of drivers; -1: unknown
	Times
	Errors map[string]int `json:"errors"` // by errno
	Hung   bool           `json:"hung"`   // one call did not return within 10 s
}

// Times sums up durations.
type Times struct {
	Count    int   `json:"count"`
	MinNS    int64 `json:"min_ns"`
	MedianNS int64 `json:"median_ns"`
	MaxNS    int64 `json:"max_ns"`
}

// Event sums up the asynchronous events of one type on one port.
type Event struct {
	Port      int    `json:"port"` // 0 for an event of the device or of an object
	Type      string `json:"type"`
	Count     uint64 `json:"count"`
	HoldMaxNS int64  `json:"hold_max_ns"`
	AckMaxNS  int64  `json:"ack_max_ns"`
}

// Flap describes the period in which the operator took the port down and up.
type Flap struct {
	WindowNS int64             `json:"window_ns"`
	Seen     []FlapObservation `json:"seen"`
	Links    []LinkCount       `json:"link_downed"`
}

// FlapObservation is an event or a change of state in the period.
type FlapObservation struct {
	AtNS  int64  `json:"at_ns"` // since the start of the period
	Port  int    `json:"port"`
	Event string `json:"event,omitempty"` // its type
	Count uint64 `json:"count,omitempty"`
	State string `json:"state,omitempty"` // from a query of the port, if it differs from the previous state
}

// LinkCount is a port's count of link drops at the first and the last reading of the period.
type LinkCount struct {
	Port   int    `json:"port"`
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
}

// Counter is a counter before the probes and after them.
type Counter struct {
	Name   string `json:"name"` // as in "ports/1/hw_counters/out_of_sequence"
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
	Error  string `json:"error,omitempty"` // errno or error text of a failed read
}

// summarizeTimes returns the minimum, median and maximum of durations in ns.
func summarizeTimes(all []int64) Times {
	if len(all) == 0 {
		return Times{}
	}
	sorted := slices.Sorted(slices.Values(all))
	return Times{len(sorted), sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1]}
}
