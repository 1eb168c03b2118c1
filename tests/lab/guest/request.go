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
	askHost(t, how+" "+d.String(), d+time.Minute)
}

// Unplug has the host unplug the slot of a device of qemu, by its ID. The guest's kernel removes the functions of the slot
// some time after Unplug has returned.
func Unplug(t *testing.T, id string) {
	t.Helper()
	askHost(t, "unplug "+id, time.Minute)
}

// SetLink has the host plug in or pull the cable of a network device of qemu, by its ID. The state is up or down. The guest's driver
// hears of it some time after SetLink has returned.
func SetLink(t *testing.T, id, state string) {
	t.Helper()
	askHost(t, "link "+state+" "+id, time.Minute)
}

// askHost sends the host a request and waits for the answer.
func askHost(t *testing.T, text string, patience time.Duration) {
	t.Helper()
	const request, answer = "/out/lab/request", "/out/lab/answer"
	// The host must not read a part of the request.
	if err := os.WriteFile(request+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(request+".new", request); err != nil {
		t.Fatal(err)
	}
	limit := time.Now().Add(patience)
	for {
		said, err := os.ReadFile(answer)
		if err == nil {
			if err := os.Remove(answer); err != nil {
				t.Fatal(err)
			}
			if len(said) > 0 {
				t.Fatalf("ask the host for %q: %s", text, said)
			}
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("ask the host for %q: no answer: %v", text, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}
