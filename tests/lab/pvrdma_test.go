//go:build lab

package lab

import (
	"testing"

	"rdma_events/tests/prerequisite"
)

// TestParavirtualDevice runs the tests on the driver of a PCI function, vmw_pvrdma, on the usual kernel.
func TestParavirtualDevice(t *testing.T) {
	if testing.Short() {
		t.Skip("it fetches 140 MB of source, and takes ten minutes: make test-full PART=pvrdma")
	}
	has, err := HasPVRDMA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !has {
		prerequisite.Missing(t, prerequisite.PVRDMA, "this qemu has no model of the device pvrdma (qemu-system-x86_64 -device help); QEMU 7.2 has")
	}
	v := usualVariant()
	v.name, v.driver = "pvrdma", "vmw_pvrdma"
	img, err := prepareImage(t, v.kernel).WithPVRDMA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run := func(title string, tests ...string) {
		t.Run(title, func(t *testing.T) {
			session{variant: v, img: img, suites: []suite{pvrdma}, tests: tests, cpus: 2}.run(t)
		})
	}
	run("stays", pvrdma.list(t, "", gone)...)
	for _, name := range pvrdma.list(t, gone) {
		run("goes/"+name, name)
	}
}
