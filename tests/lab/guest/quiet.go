//go:build guest

package guest

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// OnOneCPU keeps the calling goroutine, and the programs that it starts, on the guest's first CPU until the
// test's end, for tests that measure to the millisecond.
//
// QEMU emulates PAUSE by taking its global lock, and a CPU that interrupts another one has to wait for the
// same lock. So who wakes a task on the other CPU while it holds a spin lock that this task wants next stands
// still for 1 to 3 ms, until a timer ends it: __wake_up in ib_uverbs_async_handler holds the lock of a wait
// queue, and poll_freewait spins for it. The function tracer shows both. On one CPU nobody spins.
func OnOneCPU(t testing.TB) {
	t.Helper()
	RequireGuest(t)
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	var all, first unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatalf("get CPUs of the test: %v", err)
	}
	first.Set(0)
	if err := unix.SchedSetaffinity(0, &first); err != nil {
		t.Fatalf("keep the test on one CPU: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.SchedSetaffinity(0, &all); err != nil {
			t.Errorf("give the test its CPUs back: %v", err)
		}
	})
}

// WithoutLinkLocal lets a netdev have no IPv6 address of its own making, for tests that measure to the
// millisecond: at each link up the kernel looks for duplicates of it (addrconf_dad_work), 3 ms on an emulated
// CPU and in the work queue that InfiniBand events wait in.
func WithoutLinkLocal(t testing.TB, netdev string) {
	t.Helper()
	RequireGuest(t)
	// IN6_ADDR_GEN_MODE_NONE of linux/if_link.h.
	if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", netdev, "addr_gen_mode"), []byte("1"), 0); err != nil {
		t.Fatalf("keep %s without a link-local address: %v", netdev, err)
	}
}
