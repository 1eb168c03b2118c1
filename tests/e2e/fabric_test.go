package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
	"rdma_events/tests/schema"
)

// isCut reports whether a pair with gpu02 is said to be cut off, as the scenario fabric has it 5 s after the start.
func isCut(p *rig.Peer) bool {
	return p != nil && p.Host == "gpu02" && p.Verdict == "path" && p.Bad && p.SilentNS >= (250*time.Millisecond).Nanoseconds()
}

func TestTheDemonstrationOfTheFabricShowsAWayThatIsCut(t *testing.T) {
	t.Parallel()
	w := rig.StartWatch(t, nil, "-demo", "-fabric")
	records := w.Await("two pairs that are cut off", 100*time.Second, func(all []rig.Record) bool {
		return slices.ContainsFunc(all, func(r rig.Record) bool { return isCut(r.Peer) && r.Device == "sim0" }) &&
			slices.ContainsFunc(all, func(r rig.Record) bool { return isCut(r.Peer) && r.Device == "sim1" })
	})
	w.End(syscall.SIGINT)
	require.True(t, slices.ContainsFunc(records, func(r rig.Record) bool { return r.Kind == "log" && strings.Contains(r.Text, "simulated") }))
	for _, r := range records {
		require.False(t, r.Peer != nil && r.Kind != "fabric_peer", "%+v", r)
	}
}

func TestWatchProbesNoHostUnasked(t *testing.T) {
	t.Parallel()
	w := rig.StartWatch(t, nil, "-config", fabricConfig(t), "-for", "8s")
	w.Await("both devices are open", time.Minute, func(r []rig.Record) bool { return hasOpened(r, "sim0") && hasOpened(r, "sim1") })
	w.End(0)
	for _, r := range w.Records() {
		require.Nil(t, r.Peer)
		require.NotEqual(t, "fabric_port", r.Kind)
	}
}

// fabricConfig returns a configuration of the simulated network between hosts.
func fabricConfig(t *testing.T) string {
	t.Helper()
	return writeFile(t, "rdma_events.conf", ofFabric(t), 0o644)
}

func ofFabric(t *testing.T) string {
	t.Helper()
	list := writeFile(t, "peers", "gpu01 rack1\ngpu02 rack1\ngpu03 rack1\ngpu05 rack2\n", 0o644)
	return simConfig("fabric") + "[inputs.rdma_events.fabric]\n  peers_file = \"" + list + "\"\n  host = \"gpu01\"\n"
}

// The way to gpu02 is cut for 6 s, 5 s after the start, and a verdict lasts until the pair has been well for 5 s.
func TestTheFabricIsATableOfPairs(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"),
		"fabric", "-config", fabricConfig(t), "-json", "-for", "10s", "-device", "sim[0]")
	cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+dir)
	text, err := cmd.Output()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	require.Equal(t, 1, exit.ExitCode(), "%s", exit.Stderr)
	var cut, well int
	for line := range strings.Lines(string(text)) {
		schema.Require(t, "fabric", line)
		var r rig.Record
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		if r.Kind != "fabric_pair" {
			continue
		}
		require.Equal(t, "sim0", r.Device)
		require.Contains(t, []string{"gpu02", "gpu03", "gpu05"}, r.Peer.Host)
		switch {
		case isCut(r.Peer):
			cut++
		case r.Peer.Verdict == "ok":
			well++
		}
	}
	require.Positive(t, cut, "%s", text)
	require.Positive(t, well, "%s", text)
	requireEmpty(t, dir)
}

func TestWhatIsSaidOfOtherHostsIsRecorded(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "rdma_events")
	r := startRecordingOf(t, dir, ofFabric(t))
	require.Eventually(t, func() bool {
		_, err := os.Stat(dir)
		return err == nil && countRecords(readRecords(t, dir), func(k *kept) bool { return isCut(k.Peer) }) >= 2
	}, time.Minute, 200*time.Millisecond)
	r.stop(t)
	text, code := runCommand(t, "events", "-directory", dir)
	require.Zero(t, code)
	require.Regexp(t, `  sim0:1 > gpu02 sim0  path  echo and write silent for \S+, the peer's process answers\n`, text)
}

func TestTheListOfHostsNeedsNoDevice(t *testing.T) {
	t.Parallel()
	text, code := runCommand(t, "fabric", "-list", "-config", fabricConfig(t))
	require.Zero(t, code)
	require.Contains(t, text, "gpu01 in rack1 pings 3 and is pinged by 3\n")
}
