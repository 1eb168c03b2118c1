//go:build schema

package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rdma_events/tests/child"
	"rdma_events/tests/rig"
)

// detectorConfig copies a monitor of the component into dir. In the pod the program and the status are in other directories, and the
// interval is longer than a test wants to wait.
func detectorConfig(t *testing.T, dir, name, status string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "packaging/kubernetes/components/node-problem-detector", name))
	require.NoError(t, err)
	config := string(text)
	for was, is := range map[string]string{
		"/plugin/rdma-events":       rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"),
		"/run/rdma_events-status":   status,
		`"invoke_interval": "30s"`:  `"invoke_interval": "1s"`,
		`"invoke_interval": "10m"`:  `"invoke_interval": "2s"`,
		`"timeout": "5s"`:           `"timeout": "900ms"`,
		`"metricsReporting": true,`: `"metricsReporting": false,`,
	} {
		config = strings.ReplaceAll(config, was, is)
	}
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	return path
}

// startPlugin runs the plugin with a simulated device for the time of the test, or until it is stopped. The status goes to dir.
func startPlugin(t *testing.T, dir, scenario string) *child.Process {
	t.Helper()
	work := t.TempDir()
	file := filepath.Join(work, "scenario.toml")
	require.NoError(t, os.WriteFile(file, []byte(scenario), 0o600))
	config := filepath.Join(work, "rdma_events.conf")
	require.NoError(t, os.WriteFile(config, []byte("[[inputs.rdma_events]]\n  backend = \"sim\"\n[inputs.rdma_events.sim]\n  scenario = \""+file+"\"\n"), 0o600))
	run, err := os.MkdirTemp("", "run") //nolint:usetesting // the test's own is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(run)) })
	cmd := exec.Command(rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "-config", config, "-poll_interval", "1s")
	cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+run+":"+dir)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	p, err := child.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = p.Stop(time.Minute), stdin.Close() }) // it has usually ended
	return p
}

// problemOf is a query for status, reason and message of the condition RDMAProblem of node-1.
var problemOf = []string{"get", "node", "node-1", "-o", `jsonpath={range .status.conditions[?(@.type=="RDMAProblem")]}{.status} {.reason} {.message}{end}`}

// node-problem-detector itself reports to the API server as the component's service account, from the component's configuration.
func TestClusterGetsConditionAndEventsFromNodeProblemDetector(t *testing.T) {
	c := startCluster(t)
	kubectl(t, c, "", "apply", "-k", "../testdata/node-problem-detector")
	status := filepath.Join(t.TempDir(), "rdma_events-status")
	require.NoError(t, os.Mkdir(status, 0o700))
	plugin := startPlugin(t, status, healthy)

	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	token := strings.TrimSpace(kubectl(t, c, "", "create", "token", "-n", "rdma-events", "rdma-problem-detector"))
	api := kubectl(t, c, "", "config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.server}")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "`+api+`", insecure-skip-tls-verify: true}}]
users: [{name: detector, user: {token: `+token+`}}]
contexts: [{name: test, context: {cluster: test, user: detector}}]
`), 0o600))
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd := exec.Command(tool(t, "node-problem-detector/node-problem-detector"), "--logtostderr", "--hostname-override=node-1", "--port=0", "--prometheus-port=0",
		"--apiserver-override="+api+"?inClusterConfig=false&auth="+kubeconfig,
		"--config.custom-plugin-monitor="+detectorConfig(t, dir, "rdma.json", status)+","+detectorConfig(t, dir, "rdma-warnings.json", status))
	cmd.Env = append(os.Environ(), "NODE_NAME=node-1")
	cmd.Stdout, cmd.Stderr = log, log
	detector, err := child.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, detector.Stop(time.Minute))
		if t.Failed() {
			text, err := os.ReadFile(log.Name())
			require.NoError(t, err)
			t.Logf("%s", text)
		}
		require.NoError(t, log.Close())
	})
	awaitCondition := func(want string) {
		t.Helper()
		require.EventuallyWithT(t, func(collect *assert.CollectT) {
			is, err := c.Kubectl(t.Context(), "", problemOf...)
			require.NoError(collect, err)
			require.True(collect, strings.HasPrefix(is, want), "want %s, is %s", want, is)
		}, time.Minute, 200*time.Millisecond)
	}

	awaitCondition("False RDMAHasNoProblem")
	require.NoError(t, plugin.Stop(time.Minute))
	awaitCondition("Unknown")

	plugin = startPlugin(t, status, fatal)
	awaitCondition("True RDMAHasProblem sim0 device-fatal")
	require.NoError(t, plugin.Stop(time.Minute))

	plugin = startPlugin(t, status, portFlaps)
	require.EventuallyWithT(t, func(collect *assert.CollectT) {
		events, err := c.Kubectl(t.Context(), "", "get", "events", "-A", "-o",
			`jsonpath={range .items[*]}{.involvedObject.name} {.reason} {.message}{"\n"}{end}`)
		require.NoError(collect, err)
		require.Contains(collect, events, "node-1 RDMAWarning sim0:1 port-flapping")
	}, time.Minute, 200*time.Millisecond)
	awaitCondition("False RDMAHasNoProblem")
	require.NoError(t, plugin.Stop(time.Minute))
}

// healthy has no event within the time of the test.
const healthy = `[[event]]
at = "24h"
type = "port_err"
`

// fatal has a device that reports a fatal error, which is critical at once.
const fatal = `[[event]]
at = "2s"
device = "sim0"
type = "device_fatal"
`

// portFlaps drops the links three times.
const portFlaps = `[[event]]
at = "5s"
every = "200ms"
times = 3
type = "port_err"

[[event]]
at = "5.1s"
every = "200ms"
times = 3
type = "port_active"
`
