// A new option needs a field of Config with its default in this file, a row with its key and allowed values
// (options.go, fabric_options.go, roles.go or expected.go), and a description in the plugin's sample.conf.

package agent

import (
	"slices"
	"time"

	"rdma_events/internal/applications/tracer"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/record/recorder"
)

// Config holds the options of [[inputs.rdma_events]]. The plugin's sample.conf describes each option. DefaultConfig
// returns the values of options that are not set.
type Config struct {
	Backend          string             `toml:"backend"`
	Devices          []string           `toml:"devices"`
	DevicesExclude   []string           `toml:"devices_exclude"`
	Ports            []string           `toml:"ports"`
	VirtualFunctions *bool              `toml:"virtual_functions"` // nil: only functions whose physical function is not visible
	Expect           []string           `toml:"expect"`
	ExpectedDown     []string           `toml:"expected_down"`
	Expected         []ExpectedConfig   `toml:"expected"`
	WorkerPath       string             `toml:"worker_path"`
	MaxEventPoints   int                `toml:"max_event_points"`
	StateInterval    Duration           `toml:"state_interval"`
	ShutdownTimeout  Duration           `toml:"shutdown_timeout"`
	Roles            RolesConfig        `toml:"roles"`
	Probe            ProbeConfig        `toml:"probe"`
	Evidence         EvidenceConfig     `toml:"evidence"`
	Recorder         RecorderConfig     `toml:"recorder"`
	Applications     ApplicationsConfig `toml:"applications"`
	Fabric           FabricConfig       `toml:"fabric"`
	Sim              SimConfig          `toml:"sim"`
}

// ProbeConfig is [inputs.rdma_events.probe].
type ProbeConfig struct {
	Interval  Duration `toml:"interval"`
	Timeout   Duration `toml:"timeout"`
	Method    string   `toml:"method"`
	Vectors   []int    `toml:"vectors"`
	AckBatch  int      `toml:"ack_batch"`
	GIDIndex  int      `toml:"gid_index"`
	PKeyIndex int      `toml:"pkey_index"`
	Window    Duration `toml:"window"`
	Stages    bool     `toml:"stages"`
	Histogram bool     `toml:"histogram"`
}

// EvidenceConfig is [inputs.rdma_events.evidence].
type EvidenceConfig struct {
	GIDInterval      Duration `toml:"gid_interval"`
	CommandInterval  Duration `toml:"command_interval"`
	CommandStuck     Duration `toml:"command_stuck"`
	SnapshotInterval Duration `toml:"snapshot_interval"`
	Ethtool          string   `toml:"ethtool"`
}

// RecorderConfig is [inputs.rdma_events.recorder].
type RecorderConfig struct {
	Directory string `toml:"directory"`
	SizeMiB   int    `toml:"size_mib"`
}

// ApplicationsConfig is [inputs.rdma_events.applications].
type ApplicationsConfig struct {
	Objects    bool     `toml:"objects"`
	Events     bool     `toml:"events"`
	By         []string `toml:"by"`
	MaxSeries  int      `toml:"max_series"`
	HangAfter  Duration `toml:"hang_after"`
	Hooks      string   `toml:"hooks"`
	TracerPath string   `toml:"tracer_path"`
}

// FabricConfig is [inputs.rdma_events.fabric].
type FabricConfig struct {
	PeersFile    string   `toml:"peers_file"`
	KeyFile      string   `toml:"key_file"`
	TLSCert      string   `toml:"tls_cert"`
	TLSKey       string   `toml:"tls_key"`
	TLSCA        string   `toml:"tls_ca"`
	Listen       string   `toml:"listen"`
	Host         string   `toml:"host"`
	Devices      []string `toml:"devices"`
	Probe        bool     `toml:"probe"`
	Peers        int      `toml:"peers"`
	Interval     Duration `toml:"interval"`
	Paths        int      `toml:"paths"`
	TrafficClass int      `toml:"traffic_class"`
	ServiceLevel int      `toml:"service_level"`

	hosts     *pinglist.List // replaces the list of PeersFile; nil: PeersFile counts
	peersPort int            // TCP port of other hosts; 0: the port of Listen
}

// SimConfig is [inputs.rdma_events.sim].
type SimConfig struct {
	Profile  string `toml:"profile"`
	Scenario string `toml:"scenario"`
	Seed     int64  `toml:"seed"`
}

// allVectors, as the only entry of probe.vectors, selects all completion vectors of a device.
const allVectors = -1

// DefaultConfig returns the configuration of an empty [[inputs.rdma_events]].
func DefaultConfig() Config {
	return Config{
		Backend:         verbs.BackendVerbs,
		Devices:         []string{"*"},
		MaxEventPoints:  20,
		StateInterval:   Duration(5 * time.Second),
		ShutdownTimeout: Duration(3 * time.Second),
		Probe: ProbeConfig{
			Interval:  Duration(time.Second),
			Timeout:   Duration(500 * time.Millisecond),
			Method:    verbs.MethodAuto.String(),
			Vectors:   []int{0},
			AckBatch:  1,
			GIDIndex:  -1,
			PKeyIndex: -1,
			Window:    Duration(5 * time.Minute),
		},
		Evidence: EvidenceConfig{
			GIDInterval:      Duration(time.Minute),
			CommandInterval:  Duration(10 * time.Second),
			CommandStuck:     Duration(5 * time.Second),
			SnapshotInterval: Duration(time.Minute),
			Ethtool:          verbs.EthtoolLink.String(),
		},
		Recorder: RecorderConfig{SizeMiB: recorder.DefaultSizeMiB},
		Applications: ApplicationsConfig{
			By: []string{"app"}, MaxSeries: 100, HangAfter: Duration(10 * time.Second), Hooks: tracer.HooksKprobe,
		},
		Fabric: FabricConfig{
			Listen: ":14791", Devices: []string{"*"}, Probe: true, Peers: 8, Interval: Duration(500 * time.Millisecond), Paths: 4,
		},
		Sim: SimConfig{Profile: "roce2", Seed: 1},
	}
}

// CountVectors returns the number of completion vectors of a device that are probed. has is the number of vectors of
// the device, or 0 if it is unknown. Configured vectors that the device lacks are not counted.
func (c *ProbeConfig) CountVectors(has int) int {
	switch {
	case !c.probing():
		return 0
	case slices.Contains(c.Vectors, allVectors):
		return max(1, has)
	}
	n := 0
	for _, v := range c.Vectors {
		if has == 0 || v < has {
			n++
		}
	}
	return n
}

// probing reports whether probes are enabled.
func (c *ProbeConfig) probing() bool { return c.Interval > 0 && c.Method != methodNone }
