//go:build guest

package guest

import (
	"os"
	"testing"
	"time"
)

// How a guest is paused.
const (
	// PauseStop is by stop and cont of qemu's monitor, which hold the guest's clocks too.
	PauseStop = "stop"
	// PauseFreeze stops the process of qemu. The guest's clocks go on, as those of a KVM guest with the clocksource tsc.
	PauseFreeze = "freeze"
)

// Pause has the host pause this guest, and returns when the guest runs again. d is the time of the host.
func Pause(t *testing.T, how string, d time.Duration) {
	t.Helper()
	const request, answer = "/out/lab/pause", "/out/lab/paused"
	// The host must not read a part of the request.
	if err := os.WriteFile(request+".new", []byte(how+" "+d.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(request+".new", request); err != nil {
		t.Fatal(err)
	}
	limit := time.Now().Add(d + time.Minute)
	for {
		text, err := os.ReadFile(answer)
		if err == nil {
			if err := os.Remove(answer); err != nil {
				t.Fatal(err)
			}
			if len(text) > 0 {
				t.Fatalf("pause guest: %s", text)
			}
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("pause guest: the host has not answered: %v", err)
		}
		<-time.After(20 * time.Millisecond)
	}
}
