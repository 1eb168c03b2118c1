package agent

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/stretchr/testify/require"
)

func parseValid(text string) (*Config, error) {
	c, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return &c, c.Validate()
}

// sampleConfig returns the sample configuration for users.
func sampleConfig(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../../plugins/inputs/rdma_events/sample.conf")
	require.NoError(t, err)
	return string(text)
}

func TestABadConfigurationIsOneLineThatNamesKeyValueAndChoice(t *testing.T) {
	dirs, err := filepath.Glob("testcases/config/*")
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir, "rdma_events.conf"))
			require.NoError(t, err)
			want, err := os.ReadFile(filepath.Join(dir, "expected.error"))
			require.NoError(t, err)
			_, err = parseValid(string(text))
			require.EqualError(t, err, strings.TrimSuffix(string(want), "\n"))
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestAnEmptyInstanceHasTheDefaults(t *testing.T) {
	p, err := parseValid("[[inputs.rdma_events]]\n")
	require.NoError(t, err)
	require.Equal(t, DefaultConfig(), *p)
}

func TestTheSampleSaysTheDefaults(t *testing.T) {
	c, err := Parse(sampleConfig(t))
	require.NoError(t, err)
	require.Equal(t, DefaultConfig(), c)

	enabled := commented.ReplaceAllString(sampleConfig(t), "$1$2")
	c, err = Parse(enabled)
	require.NoError(t, err)
	want := DefaultConfig()
	want.VirtualFunctions = new(bool) // the default is neither true nor false
	want.DevicesExclude, want.Ports, want.Expect, want.ExpectedDown = []string{}, []string{}, []string{}, []string{}
	want.Roles = RolesConfig{Compute: []string{}, Storage: []string{}, Management: []string{}}
	require.Equal(t, want, c)

	var d struct {
		Inputs map[string][]map[string]any
	}
	_, err = toml.Decode(enabled, &d)
	require.NoError(t, err)
	values := d.Inputs["rdma_events"][0]
	var known []string
	for _, section := range sectionNames() {
		for key := range values[section].(map[string]any) {
			known = append(known, section+"."+key)
		}
		delete(values, section)
	}
	for key := range values {
		known = append(known, key)
	}
	for _, o := range new(ExpectedConfig).options() {
		known = append(known, o.key) // see TestTheSampleHasASectionExpected
	}
	require.ElementsMatch(t, OptionNames(), known, "sample.conf has every option")
}

// The stock shim decodes into the plugin by struct tags.
func TestOptionsAndStructTagsAgree(t *testing.T) {
	var tags []string
	var walk func(prefix string, typ reflect.Type)
	walk = func(prefix string, typ reflect.Type) {
		for _, f := range reflect.VisibleFields(typ) {
			if !f.IsExported() {
				continue // set by the program, not by a configuration
			}
			name := prefix + f.Tag.Get("toml")
			typ := f.Type
			if typ.Kind() == reflect.Slice {
				typ = typ.Elem()
			}
			if typ.Kind() == reflect.Struct {
				walk(name+".", typ)
				continue
			}
			tags = append(tags, name)
		}
	}
	walk("", reflect.TypeFor[Config]())
	require.ElementsMatch(t, OptionNames(), tags)

	c := DefaultConfig()
	_, err := toml.Decode("backend = \"sim\"\n[probe]\ninterval = \"2s\"\n", &c)
	require.NoError(t, err)
	require.Equal(t, "sim", c.Backend)
	require.Equal(t, Duration(2*time.Second), c.Probe.Interval)
}

func TestEveryOptionReachesItsField(t *testing.T) {
	p, err := parseValid(`
[[inputs.rdma_events]]
  backend = "sim"
  devices = ["mlx5_*", "bnxt_re{0,1}"]
  devices_exclude = ["mlx5_9"]
  ports = ["mlx5_0:1", "mlx5_1:2"]
  virtual_functions = true
  expect = ["mlx5_0"]
  expected_down = ["mlx5_1:2"]
  worker_path = "/opt/worker"
  max_event_points = 7
  state_interval = "0s"
  shutdown_timeout = 2
  [inputs.rdma_events.roles]
    compute = ["mlx5_[0-7]"]
    storage = ["mlx5_8:1"]
    management = ["mlx5_*:2"]
  [inputs.rdma_events.probe]
    interval = "2s"
    timeout = "250ms"
    method = "ud_send"
    vectors = [3, 1]
    ack_batch = 16
    gid_index = 3
    pkey_index = 1
    window = "1d"
    stages = true
    histogram = true
  [inputs.rdma_events.evidence]
    gid_interval = "0s"
    command_interval = "0s"
    command_stuck = "2s"
    snapshot_interval = "30s"
    ethtool = "all"
  [inputs.rdma_events.recorder]
    directory = "/srv/records"
    size_mib = 8
  [inputs.rdma_events.applications]
    objects = true
    events = true
    by = ["app", "unit"]
    max_series = 7
    hang_after = "1m"
    hooks = "kprobe"
    tracer_path = "/opt/tracer"
  [inputs.rdma_events.fabric]
    peers_file = "/etc/peers"
    tls_cert = "/etc/cert"
    tls_key = "/etc/key"
    tls_ca = "/etc/ca"
    listen = "10.0.0.1:14792"
    host = "gpu042"
    devices = ["mlx5_0"]
    probe = false
    peers = 4
    interval = "1s"
    paths = 2
    traffic_class = 106
    service_level = 3
  [inputs.rdma_events.sim]
    profile = "ib8"
    scenario = "storm"
    seed = 0
`)
	require.NoError(t, err)
	virtual := true
	require.Equal(t, Config{
		Backend: "sim", Devices: []string{"mlx5_*", "bnxt_re{0,1}"}, DevicesExclude: []string{"mlx5_9"},
		Ports: []string{"mlx5_0:1", "mlx5_1:2"}, VirtualFunctions: &virtual, Expect: []string{"mlx5_0"},
		ExpectedDown: []string{"mlx5_1:2"}, WorkerPath: "/opt/worker", MaxEventPoints: 7,
		ShutdownTimeout: Duration(2 * time.Second),
		Roles:           RolesConfig{Compute: []string{"mlx5_[0-7]"}, Storage: []string{"mlx5_8:1"}, Management: []string{"mlx5_*:2"}},
		Probe: ProbeConfig{
			Interval: Duration(2 * time.Second), Timeout: Duration(250 * time.Millisecond),
			Method: "ud_send", Vectors: []int{3, 1}, AckBatch: 16, GIDIndex: 3, PKeyIndex: 1,
			Window: Duration(24 * time.Hour), Stages: true, Histogram: true,
		},
		Evidence: EvidenceConfig{
			CommandStuck: Duration(2 * time.Second), SnapshotInterval: Duration(30 * time.Second), Ethtool: "all",
		},
		Recorder: RecorderConfig{Directory: "/srv/records", SizeMiB: 8},
		Applications: ApplicationsConfig{
			Objects: true, Events: true, By: []string{"app", "unit"}, MaxSeries: 7, HangAfter: Duration(time.Minute),
			Hooks: "kprobe", TracerPath: "/opt/tracer",
		},
		Fabric: FabricConfig{
			PeersFile: "/etc/peers", TLSCert: "/etc/cert", TLSKey: "/etc/key", TLSCA: "/etc/ca", Listen: "10.0.0.1:14792", Host: "gpu042",
			Devices: []string{"mlx5_0"}, Peers: 4, Interval: Duration(time.Second), Paths: 2, TrafficClass: 106, ServiceLevel: 3,
		},
		Sim: SimConfig{Profile: "ib8", Scenario: "storm"},
	}, *p)
}

func TestAProbeThatIsOffMayHaveAnyTimeout(t *testing.T) {
	for _, off := range []string{`interval = "0s"`, `method = "none"`} {
		_, err := parseValid("[[inputs.rdma_events]]\n[inputs.rdma_events.probe]\n" + off + "\ntimeout = \"10s\"\n")
		require.NoError(t, err, off)
	}
}

func TestProbedVectorsAreCounted(t *testing.T) {
	for _, tt := range []struct {
		conf            string
		of0, of2, of128 int // for a device with so many vectors; 0: unknown
	}{
		{"", 1, 1, 1},
		{"vectors = [-1]", 1, 2, 128},
		{"vectors = [0, 1, 5]", 3, 2, 3},
		{"vectors = [-1]\nmethod = \"none\"", 0, 0, 0},
		{"vectors = [-1]\ninterval = \"0s\"", 0, 0, 0},
	} {
		p, err := parseValid("[[inputs.rdma_events]]\n[inputs.rdma_events.probe]\n" + tt.conf + "\n")
		require.NoError(t, err)
		got := []int{p.Probe.CountVectors(0), p.Probe.CountVectors(2), p.Probe.CountVectors(128)}
		require.Equal(t, []int{tt.of0, tt.of2, tt.of128}, got, tt.conf)
	}
}

func TestGlobsWithBracesAloneAreGlobs(t *testing.T) {
	f, err := compileGlobs([]string{"mlx5_{0,1}"})
	require.NoError(t, err)
	require.True(t, f.Match("mlx5_1"))
	require.False(t, f.Match("mlx5_2"))
}

func TestDottedKeysAreOptionsToo(t *testing.T) {
	p, err := parseValid("[[inputs.rdma_events]]\nprobe.interval = \"3s\"\n")
	require.NoError(t, err)
	require.Equal(t, Duration(3*time.Second), p.Probe.Interval)
	require.True(t, slices.Contains(p.Devices, "*"))
}

func FuzzParseNeverPanicsAndFailsInOneLine(f *testing.F) {
	f.Add(sampleConfig(f))
	f.Add("[[inputs.rdma_events]]\nprobe.a.b = 1")
	f.Add("inputs.rdma_events = [1]")
	f.Add("inputs = 1")
	f.Add("[[inputs.rdma_events.probe]]\ninterval = 1")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := parseValid(text); err != nil {
			require.NotContains(t, err.Error(), "\n")
		}
	})
}
