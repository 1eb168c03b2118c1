//go:build guest

package guest

import (
	"fmt"
	"os"
	"testing"
	"time"
)

const extStateKnob = "/sys/kernel/debug/extstate"

// Reasons why there is no link, of enum ethtool_link_ext_state in the kernel's linux/ethtool.h.
const (
	NoCable  = 4
	Overheat = 9
)

// GiveReason makes a netdev without a carrier have a reason for that, as the drivers of hardware have one. The kernel
// answers who asks for it or for the statistics before late from now only then, and holds its RTNL lock until then. The
// last netdev with a reason keeps it until it is deleted.
func GiveReason(t testing.TB, netdev string, reason int, late time.Duration) {
	t.Helper()
	writeExtState(t, fmt.Sprintf("%s %d %d", netdev, reason, late.Milliseconds()))
}

// HoldRTNL holds the kernel's RTNL lock, which most changes of a network device and most questions about one
// need. It returns a channel that is closed when the lock is free again.
func HoldRTNL(t testing.TB, during time.Duration) (free <-chan struct{}) {
	t.Helper()
	loadModule(t, "extstate", "LAB_EXTSTATE")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := os.WriteFile(extStateKnob, fmt.Appendf(nil, "hold %d", during.Milliseconds()), 0); err != nil {
			t.Errorf("hold the RTNL lock: %v", err)
		}
	}()
	t.Cleanup(func() { <-done })
	return done
}

func writeExtState(t testing.TB, line string) {
	t.Helper()
	loadModule(t, "extstate", "LAB_EXTSTATE")
	if err := os.WriteFile(extStateKnob, []byte(line), 0); err != nil {
		t.Errorf("give a reason %q: %v", line, err)
	}
}
