package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// A check without a device to examine tells nothing about devices, so its status is not OK.
func TestWithoutADeviceItsChecksAreSkipped(t *testing.T) {
	files := healthyTree().with(tree{class: "", "sys/class/infiniband_verbs": "", "sys/bus": ""})
	r := Run(context.Background(), newHost(t, files, workingWorker()))
	for _, check := range []string{"device_nodes", "ports", "ext_state", "probes", "events", "removal"} {
		results := r.resultsOf(check)
		require.Len(t, results, 1, check)
		require.Equal(t, Skipped, results[0].Status, check)
		require.Empty(t, results[0].Fix, check)
	}
	require.Equal(t, Warn, r.Status, "there is no device")
	var text, object bytes.Buffer
	require.NoError(t, r.WriteText(&text, nil))
	require.Contains(t, text.String(), "\nSKIP  device nodes       no device, so no node is needed\n")
	require.Contains(t, text.String(), " FAIL, 6 skipped\n")
	require.NoError(t, r.WriteJSON(&object))
	var read struct {
		Checks []struct{ Check, Status string }
	}
	require.NoError(t, json.Unmarshal(object.Bytes(), &read))
	require.Contains(t, read.Checks, struct{ Check, Status string }{"ports", "skipped"})
}
