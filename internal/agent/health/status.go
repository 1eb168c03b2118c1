package health

import (
	"slices"
	"strings"
	"time"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/device/expect"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/sys/status"
)

// Schema is the value of Status.Schema. It changes when a field is removed or changes its meaning, not when a field is
// added.
const Schema = 1

// Source tells how a Status was obtained.
type Source string

// The sources.
const (
	SourcePlugin Source = "plugin" // written by a running plugin, which knows the past
	SourceLook   Source = "look"   // the devices were opened once to make this status; nothing is known of the past
)

// Status is the state of the devices of a host. Unknown values are absent from its JSON.
type Status struct {
	Schema  int       `json:"schema"`
	Version string    `json:"version"` // of the program
	Host    string    `json:"host"`
	Time    time.Time `json:"time"` // time of the values
	Source  Source    `json:"source"`
	Devices []Device  `json:"devices"`
	// FunctionsSkipped is the number of virtual and scalable functions that virtual_functions excludes.
	FunctionsSkipped int       `json:"functions_skipped,omitempty"`
	MemorySince      time.Time `json:"memory_since,omitzero"` // start of the plugin's memory; zero: the memory survives restarts
	Problems         []Problem `json:"problems"`              // the most severe ones first
	// Pending lists what is not known: a device that is released or not open, a port that does not answer, after a start a
	// condition that has not held long enough to be a problem, and what another plugin would report that is running and silent.
	Pending []Pending `json:"pending,omitempty"`
}

// Pending is a fact about a device, port or host that is not known.
type Pending struct {
	Device string `json:"device"`         // "": the host
	Port   int    `json:"port,omitempty"` // 0: the device
	Text   string `json:"text"`           // as Problem.Text
}

// Device is the state of a device. Its attributes stay known after it has been opened once.
type Device struct {
	Device      string        `json:"device"`
	Driver      string        `json:"driver,omitempty"`
	Firmware    string        `json:"fw_ver,omitempty"`
	BoardID     string        `json:"board_id,omitempty"`
	PCIAddress  string        `json:"pci_address,omitempty"`
	NUMANode    *int          `json:"numa_node,omitempty"`
	PCILink     *PCILink      `json:"pcie,omitempty"`
	Present     bool          `json:"present"`
	Open        bool          `json:"open"`
	WorkerState status.State  `json:"worker_state"`
	Reason      status.Reason `json:"reason"`
	AwaySince   time.Time     `json:"other_netns_since,omitzero"` // when the plugin first saw it in the other network namespace
	Ports       []Port        `json:"ports,omitempty"`
	Probes      []Probe       `json:"probes,omitempty"`
	Commands    []Command     `json:"commands,omitempty"`
}

// PCILink is the PCIe link of a device.
type PCILink struct {
	SpeedGTs     float64 `json:"speed_gts"`
	Width        int     `json:"width"`
	BestSpeedGTs float64 `json:"speed_best_gts"` // supported by both ends
	BestWidth    int     `json:"width_best"`
}

// Port is the state of a port.
type Port struct {
	Port         int       `json:"port"`
	State        string    `json:"state,omitempty"`
	Since        time.Time `json:"since,omitzero"` // time of the last change; absent before the first one
	PhysState    string    `json:"phys_state,omitempty"`
	LinkLayer    string    `json:"link_layer,omitempty"`
	NetDev       string    `json:"netdev,omitempty"`
	RateGbps     float64   `json:"rate_gbps,omitempty"`
	RateBestGbps float64   `json:"rate_best_gbps,omitempty"` // highest rate since the plugin started
	// RateExpectedGbps is the minimum rate that the port should have while it is active, 0 if none is known.
	RateExpectedGbps float64   `json:"rate_expected_gbps,omitempty"`
	Width            string    `json:"width,omitempty"`
	Role             string    `json:"role,omitempty"`     // as the tag role of rdma_port
	Flaps            uint64    `json:"flaps"`              // since the plugin started
	LastFlap         time.Time `json:"last_flap,omitzero"` // when the port became active again
	ExpectedDown     bool      `json:"expected_down,omitempty"`
	// ExpectedUp tells whether the port should be active, and ExpectedReason why. Both are absent while it is not known
	// whether the port is active.
	ExpectedUp     *bool         `json:"expected_up,omitempty"`
	ExpectedReason expect.Reason `json:"expected_reason,omitempty"`
	Fabric         *Fabric       `json:"fabric,omitempty"` // absent if the port probes no other hosts
}

// Fabric summarizes the probes between a port and other hosts.
type Fabric struct {
	Verdict verdict.Verdict `json:"verdict"` // verdict about the port itself: ok, own_port or own_link
	Pairs   int64           `json:"pairs"`   // configured pairs, connected or not
	Met     int64           `json:"pairs_met"`
	Bad     int64           `json:"pairs_bad"` // pairs with a problem of the network
	Busy    int64           `json:"pairs_busy"`
	Down    int64           `json:"pairs_down"`
}

// Probe is the state of a completion queue probe. Its counters start when the plugin starts.
type Probe struct {
	Port            int    `json:"port"`
	Vector          int    `json:"vector"`
	Method          string `json:"method"`
	OK              *bool  `json:"ok,omitempty"` // result of the last round; absent before the first one
	WakeP99NS       int64  `json:"wake_ns_p99,omitempty"`
	LostEvents      uint64 `json:"lost_events"`
	LostCompletions uint64 `json:"lost_completions"`
	Errors          uint64 `json:"errors"`
}

// Command is the state of a kind of call that the device's firmware must answer. Errors counts from the start of the
// plugin.
type Command struct {
	Port      int    `json:"port"`
	Call      string `json:"call"`
	Stuck     bool   `json:"stuck"`
	Status    string `json:"status,omitempty"` // result of the last call that ended: ok, or the name of an errno
	Errors    uint64 `json:"errors"`
	BusyNS    int64  `json:"busy_ns,omitempty"` // duration so far of the call in progress
	TookP99NS int64  `json:"took_ns_p99,omitempty"`
}

// Problem is what an alert rule reports. ID is the ID of the rule.
type Problem struct {
	ID       string          `json:"id"`
	Severity alerts.Severity `json:"severity"`
	Device   string          `json:"device,omitempty"` // "": the plugin itself
	Port     int             `json:"port,omitempty"`   // 0: the device
	Of       string          `json:"of,omitempty"`     // the application, and the object in whose call one of its threads hangs
	Since    time.Time       `json:"since"`
	Text     string          `json:"text"` // one line, without the device and its port
}

// Worst returns the highest severity of all problems, or "" if there is none.
func (s *Status) Worst() alerts.Severity {
	if len(s.Problems) == 0 {
		return ""
	}
	return s.Problems[0].Severity
}

// KeepOnly removes all devices that do not match, and their problems and pending facts.
func (s *Status) KeepOnly(matches func(device string) bool) {
	s.Devices = slices.DeleteFunc(s.Devices, func(d Device) bool { return !matches(d.Device) })
	s.Problems = slices.DeleteFunc(s.Problems, func(p Problem) bool { return !matches(p.Device) })
	s.Pending = slices.DeleteFunc(s.Pending, func(p Pending) bool { return !matches(p.Device) })
}

// Merge combines the statuses of several plugins on one host. If several plugins watch a device, the first one that has
// it open counts. Values that are not about a device come from the newest status. all must not be empty.
func Merge(all []*Status) *Status {
	newest := slices.MaxFunc(all, func(a, b *Status) int { return a.Time.Compare(b.Time) })
	merged := *newest
	merged.Devices, merged.Problems, merged.Pending = []Device{}, []Problem{}, nil
	at := map[string]int{}
	for _, s := range all {
		merged.FunctionsSkipped = min(merged.FunctionsSkipped, s.FunctionsSkipped) // one plugin may watch what another one skips
		for _, d := range s.Devices {
			i, there := at[d.Device]
			switch {
			case !there:
				at[d.Device] = len(merged.Devices)
				merged.Devices = append(merged.Devices, d)
			case d.Open && !merged.Devices[i].Open:
				merged.Devices[i] = d
			}
		}
		for _, p := range s.Problems {
			if !slices.ContainsFunc(merged.Problems, func(q Problem) bool { return q.identity() == p.identity() }) {
				merged.Problems = append(merged.Problems, p)
			}
		}
	}
	for _, s := range all {
		for _, p := range s.Pending {
			i, there := at[p.Device]
			if there && merged.Devices[i].Open && p.Port == 0 || slices.Contains(merged.Pending, p) {
				continue // another plugin has the device open
			}
			merged.Pending = append(merged.Pending, p)
		}
	}
	slices.SortFunc(merged.Devices, func(a, b Device) int { return strings.Compare(a.Device, b.Device) })
	sortProblems(merged.Problems)
	return &merged
}

// identity returns the fields of a problem that are the same if several plugins report it.
func (p *Problem) identity() Problem {
	return Problem{ID: p.ID, Device: p.Device, Port: p.Port, Text: p.Text}
}

// sortProblems sorts by severity, and problems of equal severity by the time at which they began.
func sortProblems(all []Problem) {
	slices.SortStableFunc(all, func(a, b Problem) int {
		if a.Severity != b.Severity {
			return strings.Compare(string(a.Severity), string(b.Severity)) // "critical" is before "warning"
		}
		return a.Since.Compare(b.Since)
	})
}
