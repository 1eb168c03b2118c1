package native

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"rdma_events/internal/sys/confine"
	"rdma_events/tests/prerequisite"
	"rdma_events/tests/rig"
)

// An attacker may have changed the library or may control it. It gets no access to
// the host. Without confinement root could do everything here, and the test runs
// as root.
func TestAHostileLibraryIsConfined(t *testing.T) {
	prerequisite.RequireRoot(t, "only root may do everything that must be refused here")
	abi := confine.Landlock()
	if abi == 0 {
		t.Fatal("this kernel has no Landlock: boot it with landlock in lsm=")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	w := newWorld(t, "hostile0")
	w.controls["hostile0"].Attack = int32(listener.Addr().(*net.TCPAddr).Port)
	secret := w.dir + "/rdma_events.conf"
	w.must(os.WriteFile(secret, []byte("token"), 0o600))
	w.start("VERBS_STANDIN_CONF=" + secret)
	w.awaitProbing("hostile0")

	got := map[string]string{}
	for line := range strings.Lines(w.controls["hostile0"].CallTrace()) {
		if what, result, found := strings.Cut(strings.TrimSpace(line), ": "); found {
			got[what] = result
		}
	}
	for what, row := range map[string]struct {
		since int // the first version of Landlock that forbids it
		want  string
	}{
		"read /etc/shadow":                {1, "EACCES"},
		"read the plugin's configuration": {1, "EACCES"},
		"write to /tmp":                   {1, "EACCES"},
		"write to /usr/lib":               {1, "EACCES"},
		"make a device node":              {1, "EACCES"},
		"execute /bin/sh":                 {1, "EACCES"},
		"trace the host":                  {0, "EPERM"},
		"connect by TCP":                  {4, "EACCES"},
		"signal the host":                 {6, "EPERM"},
		"open a raw socket":               {0, "EPERM"},
		"become another user":             {0, "EPERM"},
		"mount":                           {0, "EPERM"},
	} {
		if abi < row.since {
			row.want = "done"
		}
		if got["attack "+what] != row.want {
			t.Errorf("%s: want %s, got %q", what, row.want, got["attack "+what])
		}
	}
	w.requireUndisturbed()
}

// The node of a device may appear and disappear when its worker is already
// confined.
func TestADeviceThatComesLaterIsOpenedAndProbed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "late0")
	w.remove("late0")
	w.start()
	w.awaitProbing(healthy...)
	w.restore("late0")
	w.awaitProbing("late0")
	w.remove("late0")
	w.Await("its removal", 30*time.Second, func(points []rig.Point) bool {
		return lastPoint(points, "rdma_device", "late0").Int("present") == 0
	})
	w.restore("late0")
	w.Await("its return", time.Minute, func(points []rig.Point) bool {
		return isProbing(points, "late0") && lastPoint(points, "rdma_device", "late0").Int("opens") == 2
	})
	w.requireUndisturbed()
}
