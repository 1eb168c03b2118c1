//go:build guest

package inguest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/tests/bench"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// TestPingPong compares a back-to-back round with half an iteration of
// ibv_rc_pingpong -e, which has two wake-ups of two processes.
func TestPingPong(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	f := bench.Figure{
		Section: wakeSection, What: "wake p50, back to back, against the mean of ibv_rc_pingpong -e", Unit: "us",
		OtherIs: "half an iteration",
		Note:    "no target: it sends 4 KiB from one process to another and back, and knows no wake-up of its own",
	}
	for i := range turns {
		var ours latency
		var other float64
		inTurn(i, func() { ours = measureDirect(t, verbs.MethodRCWrite, 4000) }, func() { other = pingPong(t) })
		f.Ours, f.Other = append(f.Ours, ours.p50/1e3), append(f.Other, other)
	}
	addFigures(f)
}

// pingPongPort is the TCP port of ibv_rc_pingpong by default.
const pingPongPort = 18515

func pingPong(t *testing.T) float64 {
	t.Helper()
	args := []string{"ibv_rc_pingpong", "-e", "-d", device, "-g", "1", "-n", "2000"}
	server := startProcess(t, "stdbuf", append([]string{"-oL"}, args...)...)
	guest.Eventually(t, "ibv_rc_pingpong listens", 20*time.Second, func() bool { return slices.Contains(guest.ListeningPorts(t), pingPongPort) })
	client := startProcess(t, args[0], append(args[1:], "127.0.0.1")...)
	text := client.await("usec/iter").text
	client.stop(false)
	server.stop(false)
	_, tail, _ := strings.Cut(text, "= ")
	perIteration, err := strconv.ParseFloat(strings.Fields(tail)[0], 64)
	if err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	return perIteration / 2
}

const (
	peerDrops = 10
	exporter  = "127.0.0.1:19100"
)

// TestPeersSeeDrops reports the values that two monitors which read sysfs export
// about the device, and the values that change after ten drops of 200 ms.
func TestPeersSeeDrops(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	node := startProcess(t, programPath(t, "NODE_EXPORTER_BIN"), "--collector.disable-defaults", "--collector.infiniband",
		"--web.listen-address="+exporter)
	defer node.stop(true)
	guest.Eventually(t, "the exporter listens", 20*time.Second, func() bool {
		_, err := scrapeExporter()
		return err == nil
	})
	peers := map[string]func(*testing.T) map[string]string{
		"Debian's prometheus-node-exporter, infiniband": scrapeDevice,
		"Telegraf's input infiniband":                   gatherOnce,
	}
	plugin := startProbing(t)
	before := map[string]map[string]string{}
	for name, read := range peers {
		before[name] = read(t)
	}
	if _, err := guest.FlapLink(t.Context(), netdev, guest.Flaps{
		Count: peerDrops, Down: 200 * time.Millisecond, Period: 600 * time.Millisecond,
	}); err != nil {
		t.Fatal(err)
	}
	table := bench.Table{
		Section: "Peers that read sysfs",
		Lead:    fmt.Sprintf("On %s, before and after %d drops of 200 ms.", device, peerDrops),
		Head:    []string{"who", "values exported", "what changed"},
	}
	plugin.Await("the drops", time.Minute, func([]rig.Point) bool { return len(downDurations(plugin)) >= peerDrops })
	drops := downDurations(plugin)
	fields := rig.Last(plugin.Points(), "rdma_port", "device", device).Fields
	table.Rows = [][]string{{"this plugin", fmt.Sprintf("%d in `rdma_port` alone", len(fields)),
		fmt.Sprintf("%d drops, each with its time and duration, %s", len(drops), bench.Show(drops, "ms"))}}
	for name, read := range peers {
		table.Rows = append(table.Rows, []string{name, countText(before[name]), changedValues(before[name], read(t))})
	}
	slices.SortFunc(table.Rows[1:], func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	report.Tables = append(report.Tables, table)
}

func countText(values map[string]string) string {
	if len(values) == 0 {
		return "nothing on this device"
	}
	return strconv.Itoa(len(values))
}

func changedValues(before, after map[string]string) string {
	var changed []string
	for name, value := range after {
		if before[name] != value {
			changed = append(changed, fmt.Sprintf("`%s` %s to %s", name, before[name], value))
		}
	}
	if changed == nil {
		return "nothing"
	}
	slices.Sort(changed)
	return strings.Join(changed, ", ")
}

func scrapeExporter() (string, error) {
	resp, err := http.Get("http://" + exporter + "/metrics")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// scrapeDevice returns the exporter's samples about the device.
func scrapeDevice(t *testing.T) map[string]string {
	t.Helper()
	text, err := scrapeExporter()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for l := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(l), "} "); ok && strings.Contains(name, `device="`+device+`"`) {
			values[name[:strings.IndexByte(name, '{')]] = value
		}
	}
	return values
}

// gatherOnce returns the fields about the device from one gathering of Telegraf's
// own input.
func gatherOnce(t *testing.T) map[string]string {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "telegraf.conf")
	if err := os.WriteFile(conf, []byte("[[inputs.infiniband]]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(programPath(t, "TELEGRAF_PEER_BIN"), "--config", conf, "--test")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Logf("Telegraf's input infiniband: %v: %s", err, stderr.String())
	}
	values := map[string]string{}
	for l := range strings.Lines(string(out)) {
		if !strings.HasPrefix(l, "> infiniband,") || !strings.Contains(l, "device="+device) {
			continue
		}
		for field := range strings.SplitSeq(strings.Fields(l)[2], ",") {
			name, value, _ := strings.Cut(field, "=")
			values[name] = value
		}
	}
	return values
}
