//go:build guest

package neighbours

import (
	"slices"
	"testing"

	"rdma_events/internal/device/verbs"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/lab/witness"
)

// The other tests require that nothing is logged and that no alert fires. This one shows that they would notice.
func TestWarningsAndAlertsAreNoticed(t *testing.T) {
	guest.RequireGuest(t)
	address := addDevice(t)
	log := witness.OpenKernelLog(t)
	writeFile(t, "/dev/kmsg", "<6>lab: no warning\n")
	writeFile(t, "/dev/kmsg", "<4>lab: warning 17 at 0xffff8881\n") // without the end of the line the record would wait for more
	if got, want := log.Warnings(t), []string{"lab: warning N at N"}; !slices.Equal(got, want) {
		t.Errorf("want %q of the kernel's log, got %q", want, got)
	}

	traced := companies()[2]
	s := traced.start(t, address)
	server := startProcess(t, nil, "ibv_rc_pingpong", "-d", device, "-g", s.gid)
	var numbers []int
	guest.Eventually(t, "a queue pair of the server", soon, func() bool {
		numbers = server.queuePairs(t, "INIT")
		return len(numbers) == 1
	})
	if s.problems.has("app-errors") {
		t.Error("want no alert before the error")
	}
	guest.InjectNumber(t, device, "qp", numbers[0], int(verbs.EventQPFatal), 1)
	guest.Eventually(t, "the alert app-errors", soon, func() bool { return s.problems.has("app-errors") })
}
