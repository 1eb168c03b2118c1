package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rdma_events/internal/agent"
	"rdma_events/internal/device/verbs"
	"rdma_events/plugins/inputs/rdma_events"
)

// asProgram makes the test binary behave as the program itself, because effects of signals and closed descriptors are
// visible only from outside.
const asProgram = "RDMA_EVENTS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rdma_events.conf")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestVersionSampleAndUsage(t *testing.T) {
	for _, tt := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"version"}, exitOK, "rdma-events ", ""},
		{[]string{"sample-config"}, exitOK, rdma_events.New().SampleConfig(), ""},
		{[]string{"--version"}, exitOK, "rdma-events ", ""},
		{[]string{"-help"}, exitOK, "usage: rdma-events", ""},
		{[]string{"-h"}, exitOK, "-poll_interval_disabled", ""},
		{[]string{"help"}, exitOK, "rdma-events explain [ALERT]", ""},
		{[]string{"help", "watch"}, exitOK, "usage: rdma-events watch", ""},
		{[]string{"help", "check"}, exitOK, "usage: rdma-events check", ""},
		{[]string{"help", "sample-config"}, exitOK, "usage: rdma-events sample-config\n\nPrint the configuration", ""},
		{[]string{"help", "explain"}, exitOK, "usage: rdma-events explain [ALERT]", ""},
		{[]string{"help", "fly"}, exitUsage, "", "rdma-events help: want the name of one command"},
		{[]string{"help", "rdma-events"}, exitUsage, "", "rdma-events help: want the name of one command"},
		{[]string{"explain"}, exitOK, "port-down\nports-down-together\n", ""},
		{[]string{"explain", "RDMAWakeSlow"}, exitOK, "wake-slow\n\nRDMA wake-up far slower than its past.", ""},
		{[]string{"explain", "-h"}, exitOK, "usage: rdma-events explain [ALERT]", ""},
		{[]string{"explain", "nonsense"}, exitUsage, "", "rdma-events explain: want the name of one alert, of these: port-down, "},
		{[]string{"assets", "-help"}, exitOK, "usage: rdma-events assets", ""},
		{[]string{"assets"}, exitUsage, "", "rdma-events assets: -out is missing"},
		{[]string{"assets", "d"}, exitUsage, "", `"d" is not a flag: name the directory with -out`},
		{[]string{"assets", "-out", "/nonexistent/d", "-engine", "graphite"}, exitUsage, "", `-engine "graphite" is not allowed`},
		{[]string{"assets", "-out", "/nonexistent/d", "-database", `a"b`}, exitUsage, "", "read -database: \"a\\\"b\" is no name for a database"},
		{[]string{"assets", "-out", "/proc/d"}, exitFailed, "", "E! make directory of dashboards/overview.json"},
		{[]string{"start"}, exitUsage, "", `"start" is neither a subcommand nor a flag`},
		{[]string{"-poll"}, exitUsage, "", "flag provided but not defined: -poll"},
		{[]string{"-poll_interval", "-1s"}, exitUsage, "", "-poll_interval -1s is not allowed"},
		{[]string{"check", "-help"}, exitOK, "path of the configuration to check", ""},
		{[]string{"check"}, exitUsage, "", "rdma-events check: -config is missing"},
		{[]string{"check", "rdma_events.conf"}, exitUsage, "", `"rdma_events.conf" is not a flag: name the file with -config`},
		{[]string{"watch", "-help"}, exitOK, "usage: rdma-events watch", ""},
		{[]string{"watch", "-demo", "-config", "f"}, exitUsage, "", "-demo and -config do not go together"},
		{[]string{"watch", "mlx5_0"}, exitUsage, "", `"mlx5_0" is not a flag: name a device with -device`},
		{[]string{"watch", "-for", "-1s"}, exitUsage, "", "-for -1s is not allowed"},
		{[]string{"watch", "-config", "/nonexistent/f"}, exitFailed, "", "E! read configuration: open /nonexistent/f"},
		{[]string{"watch", "-fabric"}, exitFailed, "", "E! fabric.peers_file is not set, so that no other host is probed: name a configuration"},
		{[]string{"fabric", "-help"}, exitOK, "usage: rdma-events fabric", ""},
		{[]string{"fabric"}, exitFailed, "", "E! fabric.peers_file is not set, so that no other host is probed: name a configuration"},
		{[]string{"fabric", "-list"}, exitFailed, "", "E! fabric.peers_file is not set"},
		{[]string{"fabric", "mlx5_0"}, exitUsage, "", `"mlx5_0" is not a flag: name a device with -device`},
		{[]string{"fabric", "-device", "["}, exitUsage, "", `-device "[" is not a glob`},
		{[]string{"fabric", "-for", "-1s"}, exitUsage, "", "-for -1s is not allowed"},
		{[]string{"fabric", "-every", "10ms"}, exitUsage, "", "-every 10ms is not allowed: want 1s or more"},
		{[]string{"fabric", "-demo", "-config", "f"}, exitUsage, "", "-demo goes neither with -config nor with -peers-file"},
		{[]string{"fabric", "-peers-file", "f"}, exitUsage, "", "-peers-file and -host go with -list"},
		{[]string{"fabric", "-list", "-peers-file", "/nonexistent/f"}, exitFailed, "", "E! inputs.rdma_events: fabric.peers_file = \"/nonexistent/f\": open"},
		{[]string{"report", "-help"}, exitOK, "usage: rdma-events report", ""},
		{[]string{"report", "-since", "-1h"}, exitUsage, "", "-since -1h0m0s is in the future"},
		{[]string{"report", "mlx5_0"}, exitUsage, "", `"mlx5_0" is not a flag: name a device with -device`},
		{[]string{"report", "-out", "/nonexistent/d/f"}, exitFailed, "", "E! write /nonexistent/d/f: "},
		{[]string{"report", "part", "host"}, exitUsage, "", "it is not to be started by hand"},
		{[]string{"report", "part", "nonsense", "{}"}, exitFailed, "", `there is no part "nonsense"`},
		{[]string{"report", "part", "host", "nonsense"}, exitFailed, "", "read query: "},
		{[]string{"report", "part", "host", "{}"}, exitOK, `"distribution":`, ""},
		{[]string{"report", "part", "resources", "[]"}, exitOK, `"devices":[]`, ""},
		{[]string{"doctor", "-help"}, exitOK, "usage: rdma-events doctor", ""},
		{[]string{"doctor", "f"}, exitUsage, "", `"f" is not a flag: name the file with -config`},
		{[]string{"check", "-nonsense"}, exitUsage, "", "flag provided but not defined"},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, tt.code, runCommand(tt.args, &stdout, &stderr))
			require.Contains(t, stdout.String(), tt.stdout)
			require.Contains(t, stderr.String(), tt.stderr)
		})
	}
}

func TestTheFlagsAreThoseOfTheShim(t *testing.T) {
	var stderr bytes.Buffer
	for _, tt := range []struct {
		args []string
		want pluginFlags
	}{
		{[]string{"-config", "f", "-poll_interval", "2s"}, pluginFlags{config: "f", pollInterval: 2 * time.Second}},
		{nil, pluginFlags{pollInterval: time.Second}},
		{[]string{"--poll_interval_disabled"}, pluginFlags{disabled: true}},
	} {
		var o pluginFlags
		code, ok := o.parse(tt.args, &stderr)
		require.True(t, ok)
		require.Equal(t, exitOK, code)
		require.Equal(t, tt.want, o)
	}
}

func TestCheckSaysOkOrOneLine(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	missing := filepath.Join(t.TempDir(), "scenario.toml")
	for _, tt := range []struct{ name, config, want string }{
		{"all well", "worker_path = \"" + exe + "\"", ""},
		{"simulated", "worker_path = \"" + exe + "\"\nbackend = \"sim\"", ""},
		{"no worker", `worker_path = "/nonexistent/worker"`, `worker_path = "/nonexistent/worker": open program`},
		{"a worker that is no program", `worker_path = "/etc/passwd"`, "not executable"},
		{
			"no tracer", "worker_path = \"" + exe + "\"\napplications.events = true\napplications.tracer_path = \"/nonexistent/tracer\"",
			`applications.tracer_path = "/nonexistent/tracer": open program: open /nonexistent/tracer: no such file or directory; ` +
				"install rdma-events-tracer, or set applications.events = false\n",
		},
		{"a bad value", `backend = "none"`, `backend = "none" is not allowed`},
		{"a bad key", `nonsense = 1`, `nonsense = 1 is not an option`},
		{"a bad profile", "backend = \"sim\"\nsim.profile = \"x\"", `unknown profile "x"`},
		{"no scenario", "backend = \"sim\"\nsim.scenario = \"" + missing + "\"", "scenario.toml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := configFile(t, "[[inputs.rdma_events]]\n"+tt.config+"\n")
			var stdout, stderr bytes.Buffer
			code := runCommand([]string{"check", "-config", path}, &stdout, &stderr)
			if tt.want == "" {
				require.True(t, strings.HasSuffix(stdout.String(), "\nok\n"), "%s%s", stdout.String(), stderr.String())
				require.Equal(t, exitOK, code)
				return
			}
			require.Equal(t, exitFailed, code)
			require.Empty(t, stdout.String())
			require.Contains(t, stderr.String(), tt.want)
			require.True(t, strings.HasPrefix(stderr.String(), "E! "))
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"))
		})
	}
}

func TestCheckSaysWhatAConfigurationMeansHere(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	path := configFile(t, `[[inputs.rdma_events]]
  worker_path = "`+exe+`"
  backend = "sim"
  devices = ["sim[0-2]", "mlx5_*"]
  devices_exclude = ["sim2"]
  expect = ["mlx5_7"]
  expected_down = ["sim1:1", "mlx4_0:2"]
  sim.profile = "fleet4"
`)
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitWarning, runCommand([]string{"check", "-config", path}, &stdout, &stderr), stderr.String())
	require.Equal(t, path+`: backend sim, probe auto every 1s
devices here: sim0, sim1, sim2, sim3
watched: sim0, sim1
warning: devices: "mlx5_*" matches no device that is here now
warning: expected_down: mlx4_0:2: mlx4_0 is not here now
warning: expect: mlx5_7 is not here now, so it is reported as missing
ok
`, stdout.String())
}

func TestCheckCountsFunctionsThatAreSkipped(t *testing.T) {
	c := agent.DefaultConfig()
	c.Backend = "sim" // no device of this host is asked about
	physical := verbs.Found{Name: "mlx5_0", PCI: "0000:3b:00.0"}
	virtual := verbs.Found{Name: "mlx5_1", PCI: "0000:3b:00.2", VirtualFunction: true, Parent: physical.PCI}
	scalable := verbs.Found{Name: "mlx5_2", VirtualFunction: true, Scalable: true, Parent: physical.PCI}
	require.Equal(t, `x.conf: backend sim, probe auto every 1s
devices here: mlx5_0, mlx5_1 (a virtual function), mlx5_2 (a scalable function)
watched: mlx5_0
skipped: 2 virtual or scalable functions are not watched, because their physical functions are visible here; virtual_functions = true watches all
ok
`, describeConfig("x.conf", &c, []verbs.Found{physical, virtual, scalable}, nil))
	require.Contains(t, describeConfig("x.conf", &c, []verbs.Found{virtual, scalable}, nil), "\nwatched: mlx5_1, mlx5_2\nok\n")
}

func TestCheckSaysWhomThisHostPings(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	list := configFile(t, "gpu01 rack1\ngpu02 rack1\ngpu03 rack2\n")
	path := configFile(t, `[[inputs.rdma_events]]
  worker_path = "`+exe+`"
  backend = "sim"
  sim.profile = "fleet4"
  fabric.peers_file = "`+list+`"
  fabric.host = "gpu01"
  fabric.devices = ["sim[01]"]
`)
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, runCommand([]string{"check", "-config", path}, &stdout, &stderr), stderr.String())
	require.Equal(t, path+`: backend sim, probe auto every 1s
devices here: sim0, sim1, sim2, sim3
watched: sim0, sim1, sim2, sim3
fabric: gpu01 of rack1 pings 2 hosts every 500ms from sim0, sim1, and is pinged by 2; it listens on :14791
pings: gpu02, gpu03
list: 867e5adc98947c07, 3 hosts in 2 groups
ok
`, stdout.String())
}

func TestCheckFindsAnOddFabric(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	for _, tt := range []struct{ list, options, want string }{
		{"gpu01 rack1\ngpu02 rack1\n", "", `warning: fabric.peers_file: it has no host "gpu99", so that this host neither probes others nor answers them; ` +
			"add it, or set fabric.host to the name that it has there\n"},
		{"gpu99 rack1\n", "", "warning: fabric.peers_file: it lists no host but this one, so none is probed\n"},
		{"gpu99 rack1\ngpu02 rack1\n", `fabric.devices = ["sim0", "mlx5_*"]`, `warning: fabric.devices: "mlx5_*" matches no device that is watched here` + "\n"},
	} {
		list := configFile(t, tt.list)
		path := configFile(t, "[[inputs.rdma_events]]\nworker_path = \""+exe+"\"\nbackend = \"sim\"\nfabric.host = \"gpu99\"\n"+
			"fabric.peers_file = \""+list+"\"\n"+tt.options+"\n")
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitWarning, runCommand([]string{"check", "-config", path}, &stdout, &stderr), stderr.String())
		require.Contains(t, stdout.String(), tt.want)
		require.Equal(t, 1, strings.Count(stdout.String(), "warning: "), stdout.String())
	}
}

func TestVariablesOfTheEnvironmentAreExpanded(t *testing.T) {
	t.Setenv("RDMA_TEST_DEVICES", `mlx5_*`)
	t.Setenv("RDMA_TEST_QUOTE", `a"b\c`)
	c, err := loadConfig(configFile(t, `[[inputs.rdma_events]]
  devices = ["${RDMA_TEST_DEVICES}"] # $NOT_SET
  worker_path = "$RDMA_TEST_QUOTE"
`))
	require.NoError(t, err)
	require.Equal(t, []string{"mlx5_*"}, c.Devices)
	require.Equal(t, `a"b\c`, c.WorkerPath)
}

func TestAMissingConfigurationFileIsNamed(t *testing.T) {
	_, err := loadConfig("/nonexistent/rdma_events.conf")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "/nonexistent/rdma_events.conf")
}

func TestEveryBuildSaysWhatItIs(t *testing.T) {
	require.Regexp(t, `^\S+ \(commit \S+, go1\.\d+\S*\)$`, describeBuild())
}
