//go:build guest

package contained

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// The worker of a plugin that is killed ends as a child of process 1.
func TestKilledPluginLeavesNoZombie(t *testing.T) {
	setUpNode(t)
	c := startContainer(t, writeBundle(t, uverbsNodes(t), configMap(t)))
	c.awaitOpens(1)
	first := c.init()
	plugin := c.plugin()
	workers := rig.Children(t, plugin)
	if len(workers) != 1 {
		t.Fatalf("want one worker of plugin %d, got %v", plugin, workers)
	}
	if err := syscall.Kill(plugin, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	guest.Eventually(t, "the worker ends", 20*time.Second, func() bool { return !rig.Running(workers[0]) })
	guest.Eventually(t, "another plugin with a worker", time.Minute, func() bool {
		now := c.plugin()
		return now != 0 && now != plugin && len(rig.Children(t, now)) == 1
	})
	guest.Eventually(t, "process 1 has waited for all that ended", 10*time.Second, func() bool {
		left := rig.Zombies(t, first)
		if len(left) > 0 {
			t.Logf("zombies of process %d: %v; the worker was %d", first, left, workers[0])
		}
		return len(left) == 0
	})
}

// init returns the process ID of the container's process 1, as seen from outside.
func (c *container) init() int {
	c.t.Helper()
	text, err := exec.CommandContext(c.t.Context(), "crun", "state", c.id).Output()
	if err != nil {
		c.t.Fatal(err)
	}
	var state struct{ PID int }
	if err := json.Unmarshal(text, &state); err != nil || state.PID == 0 {
		c.t.Fatalf("want the number of a process, got %s (%v)", text, err)
	}
	return state.PID
}

// plugin returns the process ID of the container's plugin, 0 if there is none.
func (c *container) plugin() int {
	c.t.Helper()
	for _, text := range strings.Fields(c.cgroup("cgroup.procs")) {
		exe, err := os.Readlink("/proc/" + text + "/exe")
		if pid, bad := strconv.Atoi(text); err == nil && bad == nil && filepath.Base(exe) == "rdma-events" {
			return pid
		}
	}
	return 0
}
