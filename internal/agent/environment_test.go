package agent

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVariablesAreEscapedForTOML(t *testing.T) {
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{"PATH_OF_IT": `/opt/a"b\c`, "EMPTY": ""}[name]
		return value, ok
	}
	text := Expand("[[inputs.rdma_events]]\n  worker_path = \"$PATH_OF_IT${EMPTY}\" # costs $5, $UNSET\n", lookup)
	c, err := Parse(text)
	require.NoError(t, err, "what a comment names need not be set")
	require.Equal(t, `/opt/a"b\c`, c.WorkerPath)
}

func TestUnsetVariableInAValueIsAnError(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	for value, want := range map[string]string{
		`state_interval = "$PERIOD"`: `state_interval = "${PERIOD}" is not allowed: want "0s", or a duration from "100ms" to "24h"; the environment has no PERIOD`,
		`worker_path = "/opt/$DIR/worker"`: `worker_path = "/opt/${DIR}/worker" is not allowed: want the path of rdma-events-worker, or ""; ` +
			"the environment has no DIR",
	} {
		_, err := Parse(Expand("[[inputs.rdma_events]]\n"+value+"\n", none))
		require.EqualError(t, err, "inputs.rdma_events: "+want)
	}
	_, err := Parse(Expand("[[inputs.rdma_events]]\nmax_event_points = $POINTS\n", none))
	require.ErrorContains(t, err, "parse configuration: line 2")
}

func TestAPodsHostIsItsNode(t *testing.T) {
	own, err := os.Hostname()
	require.NoError(t, err)
	t.Setenv(nodeNameVariable, "")
	require.Equal(t, own, describePlugin("v1").Host)
	t.Setenv(nodeNameVariable, "node-1")
	require.Equal(t, "node-1", describePlugin("v1").Host)
	host, err := new(FabricConfig).HostName()
	require.NoError(t, err)
	require.Equal(t, "node-1", host)
}
