package kubernetes

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// monitor has the keys of a custom plugin monitor's configuration that
// node-problem-detector v1.36.0 reads (pkg/custompluginmonitor/types).
type monitor struct {
	Plugin string `json:"plugin"`
	Config struct {
		InvokeInterval    string `json:"invoke_interval"`
		Timeout           string `json:"timeout"`
		MaxOutputLength   int    `json:"max_output_length"`
		Concurrency       int    `json:"concurrency"`
		UpdatesByMessage  bool   `json:"enable_message_change_based_condition_update"`
		SkipInitialStatus bool   `json:"skip_initial_status"`
	} `json:"pluginConfig"`
	Source           string `json:"source"`
	MetricsReporting bool   `json:"metricsReporting"`
	Conditions       []struct {
		Type    string `json:"type"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"conditions"`
	Rules []struct {
		Type           string   `json:"type"`
		Condition      string   `json:"condition"`
		Reason         string   `json:"reason"`
		Path           string   `json:"path"`
		Args           []string `json:"args"`
		Timeout        string   `json:"timeout"`
		InvokeInterval string   `json:"invoke_interval"`
	} `json:"rules"`
}

func componentPath(name string) string {
	return filepath.Join(root, "packaging/kubernetes/components/node-problem-detector", name)
}

func readMonitor(t *testing.T, name string) monitor {
	t.Helper()
	text, err := os.ReadFile(componentPath(name))
	require.NoError(t, err)
	var m monitor
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&m))
	return m
}

// The conditions are those of Validate in node-problem-detector's
// pkg/custompluginmonitor/types/config.go.
func TestDetectorsMonitorIsValid(t *testing.T) {
	m := readMonitor(t, "rdma.json")
	require.Equal(t, "custom", m.Plugin)
	interval, err := time.ParseDuration(m.Config.InvokeInterval)
	require.NoError(t, err)
	timeout, err := time.ParseDuration(m.Config.Timeout)
	require.NoError(t, err)
	require.Positive(t, timeout)
	require.Greater(t, interval, timeout)
	require.Len(t, m.Conditions, 1)
	require.Len(t, m.Rules, 1)
	require.Equal(t, "permanent", m.Rules[0].Type)
	require.Equal(t, m.Conditions[0].Type, m.Rules[0].Condition)
	require.NotEqual(t, m.Conditions[0].Reason, m.Rules[0].Reason)
	require.Equal(t, 80, m.Config.MaxOutputLength, "`rdma-events health` prints no longer line")
	require.True(t, m.Config.UpdatesByMessage, "else the condition keeps the first problem's text")
	require.True(t, m.Config.SkipInitialStatus, "else the condition is False before the first check, which may end a drain")
}

// node-problem-detector ends at its start if the program of a rule is not there, so the
// init container has to put it where the rule looks for it.
func TestDetectorRunsTheProgramThatIsCopied(t *testing.T) {
	pod, err := ReadPod(componentPath("daemonset.yaml"))
	require.NoError(t, err)
	require.Len(t, pod.InitContainers, 1)
	copied := pod.InitContainers[0].Command
	require.Len(t, pod.Containers, 1)
	require.Contains(t, pod.Containers[0].Command, "--config.custom-plugin-monitor=/config/rdma.json,/config/rdma-warnings.json")
	var mounted []string
	for _, m := range pod.Containers[0].VolumeMounts {
		require.True(t, m.ReadOnly, m.Name)
		mounted = append(mounted, m.Path)
	}
	for file, format := range map[string]string{"rdma.json": "npd", "rdma-warnings.json": "npd-warning"} {
		rule := readMonitor(t, file).Rules[0]
		require.Equal(t, rule.Path, filepath.Join(copied[2], filepath.Base(copied[1])))
		require.Contains(t, mounted, filepath.Dir(rule.Path))
		require.Contains(t, mounted, rule.Args[len(rule.Args)-1])
		require.True(t, strings.HasPrefix(strings.Join(rule.Args, " "), "health -format "+format+" -dir "))
	}
}

// A temporary rule makes an event of each run that does not end with 0 (generateStatus in pkg/custompluginmonitor), and v1.36.0 knows no
// interval of a rule, so that warnings have a monitor with an interval of their own. It has no condition: a condition stands on the node
// from the start.
func TestDetectorsWarningsAreEventsAndNoCondition(t *testing.T) {
	m := readMonitor(t, "rdma-warnings.json")
	require.Equal(t, "custom", m.Plugin)
	require.Empty(t, m.Conditions)
	require.Len(t, m.Rules, 1)
	require.Equal(t, "temporary", m.Rules[0].Type)
	require.NotEqual(t, readMonitor(t, "rdma.json").Rules[0].Reason, m.Rules[0].Reason)
	require.Empty(t, m.Rules[0].InvokeInterval)
	interval, err := time.ParseDuration(m.Config.InvokeInterval)
	require.NoError(t, err)
	require.GreaterOrEqual(t, interval, 5*time.Minute, "an event each time")
	timeout, err := time.ParseDuration(m.Config.Timeout)
	require.NoError(t, err)
	require.Positive(t, timeout)
	require.Equal(t, 80, m.Config.MaxOutputLength, "`rdma-events health` prints no longer line")
}
