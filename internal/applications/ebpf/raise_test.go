package ebpf

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWhatAFilePermitsIsRaised(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		self := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var before, after [2]unix.CapUserData
		if err := unix.Capget(&self, &before[0]); err != nil {
			t.Error(err)
			return
		}
		lowered := before
		lowered[0].Effective, lowered[1].Effective = 0, 0
		if err := unix.Capset(&self, &lowered[0]); err != nil {
			t.Error(err)
			return
		}
		if err := raiseCapabilities(); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Capget(&self, &after[0]); err != nil {
			t.Error(err)
			return
		}
		for i := range after {
			if after[i].Effective != before[i].Permitted || after[i].Permitted != before[i].Permitted {
				t.Errorf("want what is permitted, %x, got %x", before[i].Permitted, after[i].Effective)
			}
		}
	}()
	<-done
}
