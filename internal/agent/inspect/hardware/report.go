package hardware

import (
	"slices"
	"time"
)

// Schema is the version of the file's format. It is increased when a member is
// removed or changes its meaning.
const Schema = 1

// Report is the content of the file. It has no GUID, GID, MAC or IP address, LID,
// serial number, host name or program name.
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
	Problems  []string  `json:"problems"` // the parts that failed, and why
}

// Versions are the versions of the software that drives the device. "" is unknown;
// an unknown version of libibverbs is "unknown".
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

// Port has a port's attributes from the first queries.
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

// InUse has the other users of the device at the start of the run.
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

// Method has the results of one probe method on one port.
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
	Late     uint64           `json:"late"`     // events of a round that had already been given up
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

// Timed has the times of one call. With some drivers the call sends commands to
// the device.
type Timed struct {
	Call     string `json:"call"`
	Port     int    `json:"port"`
	Commands int    `json:"commands"` // at most this many per call, by the table of drivers; -1: unknown
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

// Flap describes the time window in which the operator took the port down and up.
type Flap struct {
	WindowNS int64       `json:"window_ns"`
	Seen     []Seen      `json:"seen"`
	Links    []LinkCount `json:"link_downed"`
}

// Seen is an event or a change of state in the window.
type Seen struct {
	AtNS  int64  `json:"at_ns"` // since the begin of the window
	Port  int    `json:"port"`
	Event string `json:"event,omitempty"` // its type
	Count uint64 `json:"count,omitempty"`
	State string `json:"state,omitempty"` // from a query of the port, if it differs from the previous state
}

// LinkCount is a port's count of link drops at the first and the last reading of
// the window.
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
	Error  string `json:"error,omitempty"` // the errno or the error text of a reading that failed
}

// timesOf sums up durations in ns.
func timesOf(all []int64) Times {
	if len(all) == 0 {
		return Times{}
	}
	sorted := slices.Sorted(slices.Values(all))
	return Times{len(sorted), sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1]}
}
