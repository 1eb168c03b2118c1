package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/snapshot"
)

func fixedTime() time.Time { return moment }

// collectPart collects a part that has one file.
func collectPart(t *testing.T, p Part) Result {
	t.Helper()
	made := Collect(t.Context(), []Part{p}, fixedTime)
	require.Len(t, made, 1)
	return made[0]
}

// newPrinter returns a RunProcess that prints a text and returns an error.
func newPrinter(text string, err error) RunProcess {
	return func(context.Context) ([]byte, error) { return []byte(text), err }
}

const entries = `{"part":"attributes","begun":true}
{"part":"attributes","took_ns":5,"value":{"driver":"mlx5_core"}}
{"part":"gids","port":1,"begun":true}
`

func TestADeviceThatHangsKeepsWhatItAnsweredBefore(t *testing.T) {
	held := errors.New("no answer within 10s, and the killed process has not ended: the kernel holds process 4711, which is left behind")
	m := collectPart(t, Device("mlx5_0", newPrinter(entries, held), fixedTime))
	require.NoError(t, m.Missing)
	require.Equal(t, "devices/mlx5_0.json", m.Name)
	require.Equal(t, []string{"gids of port 1: not answered when the process ended", held.Error()}, m.Lacks)
	var doc snapshot.Document
	require.NoError(t, json.Unmarshal(m.Data.(Text), &doc))
	require.Equal(t, moment, doc.Time)
	require.Contains(t, doc.Parts, "attributes")

	m = collectPart(t, Device("mlx5_0", newPrinter("", held), fixedTime))
	require.ErrorIs(t, m.Missing, held)
	require.Equal(t, "devices/a_b.json", DescribeDevice("a/b").Name)
}

func TestWhatTheDoctorSaysIsThereEvenIfItFindsFaultsOrIsKilled(t *testing.T) {
	m := collectPart(t, Doctor(newPrinter("FAIL\n", nil)))
	require.NoError(t, m.Missing)
	require.Empty(t, m.Lacks)
	m = collectPart(t, Doctor(newPrinter("OK\n", errors.New("no answer within 1m0s"))))
	require.Equal(t, []string{"no answer within 1m0s"}, m.Lacks)
	require.Error(t, collectPart(t, Doctor(newPrinter("", nil))).Missing)
}

func TestHostAndResourcesAreThoseThatAProcessPrints(t *testing.T) {
	m := collectPart(t, HostFacts(newPrinter(`{"schema":1,"host":"node17"}`, nil)))
	require.NoError(t, m.Missing)
	require.Contains(t, string(m.Data.(Text)), `"host": "node17"`)
	require.ErrorContains(t, collectPart(t, HostFacts(newPrinter("panic: x", nil))).Missing, "read what was printed")

	counts := ReadResources(moment, []string{"mlx5_0", "gone0"}, func(device string) (map[string]uint64, error) {
		if device == "gone0" {
			return nil, fmt.Errorf("no such RDMA device %s", device)
		}
		return map[string]uint64{"qp": 3}, nil
	})
	text, err := json.Marshal(counts)
	require.NoError(t, err)
	m = collectPart(t, ResourceCounts(newPrinter(string(text), nil)))
	require.Equal(t, []string{"no such RDMA device gone0"}, m.Lacks)
	require.JSONEq(t, `{"schema": 1, "time": "2026-11-23T16:35:04.123456789Z", "devices": [
		{"device": "mlx5_0", "resources": {"qp": 3}}, {"device": "gone0", "error": "no such RDMA device gone0"}]}`, string(m.Data.(Text)))
	m = collectPart(t, ResourceCounts(newPrinter("", OmittedError("simulated"))))
	require.Empty(t, MissingLines([]Result{m}))
	require.Equal(t, []string{"simulated"}, m.omittedLines())
}

func TestTheConfigurationIsThereWithoutSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rdma_events.conf")
	require.NoError(t, os.WriteFile(path, []byte("[[inputs.rdma_events]]\ntoken = 'hunter2'\n"), 0o600))
	m := collectPart(t, Config(path, someOptions))
	require.Equal(t, "[inputs]\n\n  [[inputs.rdma_events]]\n    token = \"removed\"\n", string(m.Data.(Text)))
	require.Equal(t, []string{"inputs.rdma_events[0].token"}, m.Removed)

	require.NoError(t, os.WriteFile(path, []byte("token = hunter2\n"), 0o600))
	m = collectPart(t, Config(path, someOptions))
	require.EqualError(t, m.Missing, path+": it is no TOML: line 1, before variables of the environment are put in")
	require.Empty(t, MissingLines([]Result{collectPart(t, Config("", someOptions))}))
	require.ErrorIs(t, collectPart(t, Config("/nonexistent/f", someOptions)).Missing, os.ErrNotExist)
}

func TestAnEmptyPartSaysWhy(t *testing.T) {
	m := collectPart(t, MissingPart(Description{"devices", "snapshots"}, errors.New("this host has no RDMA device now")))
	require.Equal(t, []string{"devices: this host has no RDMA device now"}, MissingLines([]Result{m}))
}
