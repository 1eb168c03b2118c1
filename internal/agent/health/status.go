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

// Schema is the value of Status.Schema. It changes when a field changes its meaning or goes, not when one is added.
const Schema = 1

// Source is from where a Status comes.
type Source string

// The sources.
const (
	SourcePlugin Source = "plugin" // the running plugin, which knows the past
	SourceLook   Source = "look"   // the devices were opened for this once; what the past says is absent
)

// Status is how the devices of a host are. What is unknown is absent from its JSON.
type Status struct {
	Schema  int       `json:"schema"`
	Version string    `json:"version"` // of the program
	Host    string    `json:"host"`
	Time    time.Time `json:"time"` // of the values
	Source  Source    `json:"source"`
	Devices []Device  `json:"devices"`
	// FunctionsSkipped are the virtual and scalable functions that virtual_functions leaves out.
	FunctionsSkipped int       `json:"functions_skipped,omitempty"`
	MemorySince      time.Time `json:"memory_since,omitzero"` // what was before is not remembered; zero: the memory outlives the plugin
	Problems         []Problem `json:"problems"`              // the most severe ones first
	// Pending is what cannot be told yet after a start: a device that was not opened yet, and what has to last before it is a problem.
	Pending []Pending `json:"pending,omitempty"`
}

// Pending is what cannot be told yet.
type Pending struct {
	Device string `json:"device"`
	Port   int    `json:"port,omitempty"` // 0: the device
	Text   string `json:"text"`           // as that of a Problem
}

// Device is a device. What it is stays known after it has been opened once.
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
	AwaySince   time.Time     `json:"other_netns_since,omitzero"` // as far as the plugin has seen it in the other network namespace
	Ports       []Port        `json:"ports,omitempty"`
	Probes      []Probe       `json:"probes,omitempty"`
	Commands    []Command     `json:"commands,omitempty"`
}

// PCILink is the PCIe link of a device.
type PCILink struct {
	SpeedGTs     float64 `json:"speed_gts"`
	Width        int     `json:"width"`
	BestSpeedGTs float64 `json:"speed_best_gts"` // that both ends support
	BestWidth    int     `json:"width_best"`
}

// Port is a port.
type Port struct {
	Port         int       `json:"port"`
	State        string    `json:"state,omitempty"`
	Since        time.Time `json:"since,omitzero"` // unknown before the first change
	PhysState    string    `json:"phys_state,omitempty"`
	LinkLayer    string    `json:"link_layer,omitempty"`
	NetDev       string    `json:"netdev,omitempty"`
	RateGbps     float64   `json:"rate_gbps,omitempty"`
	RateBestGbps float64   `json:"rate_best_gbps,omitempty"` // since the plugin started
	// RateExpectedGbps is the rate that the active port should have at least, 0 if nothing says so.
	RateExpectedGbps float64   `json:"rate_expected_gbps,omitempty"`
	Width            string    `json:"width,omitempty"`
	Role             string    `json:"role,omitempty"`     // as the tag of rdma_port
	Flaps            uint64    `json:"flaps"`              // since the plugin started
	LastFlap         time.Time `json:"last_flap,omitzero"` // when the port came back
	ExpectedDown     bool      `json:"expected_down,omitempty"`
	// ExpectedUp is whether the port should be active, and ExpectedReason why. They are absent where it is not known whether it is.
	ExpectedUp     *bool         `json:"expected_up,omitempty"`
	ExpectedReason expect.Reason `json:"expected_reason,omitempty"`
	Fabric         *Fabric       `json:"fabric,omitempty"` // absent where the port probes no other hosts
}

// Fabric is what is known of the network between a port and other hosts.
type Fabric struct {
	Verdict verdict.Verdict `json:"verdict"` // of the port itself: ok, own_port or own_link
	Pairs   int64           `json:"pairs"`   // that it probes, or would
	Met     int64           `json:"pairs_met"`
	Bad     int64           `json:"pairs_bad"` // of which the network is to blame
	Busy    int64           `json:"pairs_busy"`
	Down    int64           `json:"pairs_down"`
}

// Probe is a completion queue probe. Counters count from the start of the plugin.
type Probe struct {
	Port            int    `json:"port"`
	Vector          int    `json:"vector"`
	Method          string `json:"method"`
	OK              *bool  `json:"ok,omitempty"` // the last round; absent before one has ended
	WakeP99NS       int64  `json:"wake_ns_p99,omitempty"`
	LostEvents      uint64 `json:"lost_events"`
	LostCompletions uint64 `json:"lost_completions"`
	Errors          uint64 `json:"errors"`
}

// Command is a kind of call that the device's firmware has to answer. Errors count from the start of the plugin.
type Command struct {
	Port      int    `json:"port"`
	Call      string `json:"call"`
	Stuck     bool   `json:"stuck"`
	Status    string `json:"status,omitempty"` // of the last one that ended: ok, or the name of the errno
	Errors    uint64 `json:"errors"`
	BusyNS    int64  `json:"busy_ns,omitempty"` // how long the one under way has lasted
	TookP99NS int64  `json:"took_ns_p99,omitempty"`
}

// Problem is what an alert rule would report. ID is that of the rule.
type Problem struct {
	ID       string          `json:"id"`
	Severity alerts.Severity `json:"severity"`
	Device   string          `json:"device,omitempty"` // "": the plugin itself
	Port     int             `json:"port,omitempty"`   // 0: the device
	Of       string          `json:"of,omitempty"`     // the application, and the object that one of its threads hangs in
	Since    time.Time       `json:"since"`
	Text     string          `json:"text"` // one line, without the device and its port
}

// Worst returns the greatest severity of all problems, "" if there is none.
func (s *Status) Worst() alerts.Severity {
	if len(s.Problems) == 0 {
		return ""
	}
	return s.Problems[0].Severity
}

// Only removes all devices that do not match, and their problems.
func (s *Status) Only(matches func(device string) bool) {
	s.Devices = slices.DeleteFunc(s.Devices, func(d Device) bool { return !matches(d.Device) })
	s.Problems = slices.DeleteFunc(s.Problems, func(p Problem) bool { return !matches(p.Device) })
	s.Pending = slices.DeleteFunc(s.Pending, func(p Pending) bool { return !matches(p.Device) })
}

// Merge returns the status of a host on which several plugins run, each with its own status. Of a device that several
// watch the first that has it open counts. all has one status at least; the newest gives what is not of a device.
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
			if !slices.ContainsFunc(merged.Problems, func(q Problem) bool { return q.subject() == p.subject() }) {
				merged.Problems = append(merged.Problems, p)
			}
		}
	}
	for _, s := range all {
		for _, p := range s.Pending {
			i, there := at[p.Device]
			if there && merged.Devices[i].Open && p.Port == 0 || slices.Contains(merged.Pending, p) {
				continue // another plugin has it open
			}
			merged.Pending = append(merged.Pending, p)
		}
	}
	slices.SortFunc(merged.Devices, func(a, b Device) int { return strings.Compare(a.Device, b.Device) })
	sortProblems(merged.Problems)
	return &merged
}

func (p *Problem) subject() Problem {
	return Problem{ID: p.ID, Device: p.Device, Port: p.Port, Text: p.Text}
}

// sortProblems sorts by severity, and those that came first before others.
func sortProblems(all []Problem) {
	slices.SortStableFunc(all, func(a, b Problem) int {
		if a.Severity != b.Severity {
			return strings.Compare(string(a.Severity), string(b.Severity)) // "critical" is before "warning"
		}
		return a.Since.Compare(b.Since)
	})
}
