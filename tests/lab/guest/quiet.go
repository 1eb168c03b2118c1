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
// QEMU emulates PAUSE by taking its global lock, and a CPU that interrupts another one has to wait for the same
// lock. A task may wake a task on the other CPU while it holds a spin lock that the woken task takes next. Then
// the waking task stops for 1 to 3 ms, until a timer ends this. Here __wake_up in ib_uverbs_async_handler holds
// the lock of a wait queue, and poll_freewait spins for that lock. The function tracer shows both. On one CPU no
// task spins.
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

// WithoutLinkLocal keeps the kernel from giving a netdev a link-local IPv6 address, for tests that measure to the
// millisecond. At each link up the kernel would search for duplicates of the address (addrconf_dad_work). That
// takes 3 ms on an emulated CPU, in the work queue in which InfiniBand events wait.
func WithoutLinkLocal(t testing.TB, netdev string) {
	t.Helper()
	RequireGuest(t)
	// IN6_ADDR_GEN_MODE_NONE of linux/if_link.h.
	if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", netdev, "addr_gen_mode"), []byte("1"), 0); err != nil {
		t.Fatalf("keep %s without a link-local address: %v", netdev, err)
	}
}
