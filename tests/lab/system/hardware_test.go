//go:build guest

package system

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rdma_events/internal/agent/inspect/hardware"
	"rdma_events/internal/device/nldev"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// tryHardware runs `rdma-events doctor -hardware` without a terminal. It returns
// the report in its file, or nil if there is none, and its output.
func tryHardware(t *testing.T, prefix []string, flags ...string) (*hardware.Report, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hardware") //nolint:usetesting // a test's own directory is closed to other users
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "out.json")
	line := append(slices.Clone(prefix), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "doctor", "-hardware", "-out", file)
	line = append(line, flags...)
	begin := time.Now()
	output, err := exec.CommandContext(t.Context(), line[0], line[1:]...).CombinedOutput()
	t.Logf("%v: %v after %v:\n%s", line, err, time.Since(begin), output)
	text, unread := os.ReadFile(file)
	if (err == nil) != (unread == nil) {
		t.Errorf("want a file and success, or neither: %v, %v", err, unread)
	}
	if unread != nil {
		return nil, string(output)
	}
	requireNoIdentity(t, string(text))
	var r hardware.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return &r, string(output)
}

// requireNoIdentity requires that no address or GUID of the device is in the file.
func requireNoIdentity(t *testing.T, text string) {
	t.Helper()
	files := []string{"/sys/class/infiniband/" + device + "/node_guid", "/sys/class/net/" + netdev + "/address"}
	gids, err := filepath.Glob("/sys/class/infiniband/" + device + "/ports/1/gids/*")
	if err != nil || len(gids) == 0 {
		t.Fatalf("no GIDs: %v", err)
	}
	for _, file := range append(files, gids...) {
		id, err := os.ReadFile(file)
		secret := strings.TrimSpace(string(id))
		if err != nil || strings.Trim(secret, "0:") == "" {
			continue
		}
		if strings.Contains(text, secret) {
			t.Errorf("%s, %s, is in the file:\n%s", file, secret, text)
		}
	}
}

// startPingpong starts another program with a queue pair on the device.
func startPingpong(t *testing.T) (stop func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ibv_rc_pingpong", "-d", device, "-g", "0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	guest.Eventually(t, "the other program has a queue pair", 20*time.Second, func() bool {
		use, err := nldev.QueryUse(device)
		return err == nil && slices.ContainsFunc(use.Owners, func(o nldev.Owner) bool { return o.PID == cmd.Process.Pid && o.Objects > 0 })
	})
	return func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}
}

func TestHardwareIsNotTriedBesideQueuePairs(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	guest.AddRxe(t, device, netdev)
	stop := startPingpong(t)
	defer stop()
	use, err := nldev.QueryUse(device)
	t.Logf("%+v, %v", use, err)
	for _, u := range users {
		r, output := tryHardware(t, u.prefix)
		if r != nil || !strings.Contains(output, "it is in use: ibv_rc_pingpong (process ") || !strings.Contains(output, "-yes") {
			t.Errorf("as %s: want a refusal that names the program, got %s", u.name, output)
		}
	}
	r, _ := tryHardware(t, users[1].prefix, "-yes")
	if r == nil {
		t.Fatal("with -yes there is no file")
	}
	if r.InUse.Programs != 1 || r.InUse.QueuePairs < 1 || r.InUse.Plugin != 0 {
		t.Errorf("want one program, got %+v", r.InUse)
	}
	requireTried(t, r, map[string]bool{"ud_send": true, "rc_write": true, "flush": true})
	if len(r.Auto) != 1 || r.Auto[0].Method != bestMethod() {
		t.Errorf("want auto to choose %s, got %+v", bestMethod(), r.Auto)
	}
	stop()
	requireNothingLeft(t)
}

func TestHardwareIsTriedBesideThePlugin(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		awaitProbe(start(fastProbe), bestMethod(), 5)
		r, _ := tryHardware(t, users[1].prefix)
		if r == nil {
			t.Fatal("there is no file")
		}
		if r.InUse.Plugin < 1 || r.InUse.Programs != 0 {
			t.Errorf("want the plugin's own worker to be known, got %+v", r.InUse)
		}
		requireTried(t, r, map[string]bool{"ud_send": true})
		if r.Auto[0].Tried || r.Flap != nil {
			t.Errorf("without a terminal nothing is to be tried that takes a yes, got %+v, %+v", r.Auto, r.Flap)
		}
	})
}

// requireTried requires rounds of these methods and of no other, and all other
// contents of the file.
func requireTried(t *testing.T, r *hardware.Report, methods map[string]bool) {
	t.Helper()
	for _, m := range r.Methods {
		slow := m.Tried && strings.HasPrefix(m.Why, "not all rounds were over within") // a guest may be slow
		if m.Tried != methods[m.Method] || !slow && m.Tried == (m.Why != "") {
			t.Errorf("%s: tried %v, %q", m.Method, m.Tried, m.Why)
		}
		if m.Tried && (m.Outcomes["success"] != m.Rounds || m.Rounds == 0 || m.Stages["wake"].Count != m.Rounds || m.Events != m.Acked) {
			t.Errorf("%s: want all rounds well and all events acknowledged, got %+v", m.Method, m)
		}
	}
	if len(r.Methods) != 3 || r.Schema != hardware.Schema || r.Simulated || r.Device.Row != "rxe" || len(r.Problems) != 0 {
		t.Errorf("the file: %+v", r)
	}
	calls := map[string]hardware.Timed{}
	for _, c := range r.Commands {
		calls[c.Call] = c
		if c.Count == 0 || c.MaxNS < c.MinNS || c.MinNS <= 0 || len(c.Errors) > 0 || c.Hung {
			t.Errorf("%s: %+v", c.Call, c)
		}
	}
	for _, name := range []string{"ibv_query_port", "state", "link_downed", "pkey", "hw_counter"} {
		if _, ok := calls[name]; !ok {
			t.Errorf("%s was not timed: %v", name, r.Commands)
		}
	}
	if !slices.ContainsFunc(r.Counters, func(c hardware.Counter) bool {
		return c.Name == "ports/1/hw_counters/link_downed" && c.Error == ""
	}) {
		t.Errorf("no link_downed among the counters: %v", r.Counters)
	}
	if v := r.Versions; v.Verbs == "" || !strings.HasPrefix(v.Provider, "rxe") || v.ABI == "" || v.UverbsABI == "" || v.Kernel == "" {
		t.Errorf("versions: %+v", v)
	}
	if p := r.Device.Ports; len(p) != 1 || p[0].DefaultGID != 0 || p[0].GIDs < 2 || p[0].State != "active" {
		t.Errorf("ports: %+v", p)
	}
}

// requireNothingLeft requires that no process has an object on the device.
func requireNothingLeft(t *testing.T) {
	t.Helper()
	guest.Eventually(t, "nothing of it is left", 20*time.Second, func() bool {
		use, err := nldev.QueryUse(device)
		return err == nil && !slices.ContainsFunc(use.Owners, func(o nldev.Owner) bool { return o.Kernel == "" })
	})
	guest.DeleteLink(t, device) // would wait for a process that has the device open
}
