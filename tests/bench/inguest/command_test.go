//go:build guest

package inguest

import (
	"testing"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/tests/bench"
	"rdma_events/tests/lab/guest"
)

// often is the pace of the commands here, a hundredth of the plugin's. Soft RoCE has hw_counters and answers at once, so
// that this is the cost on the host's side.
const often = 100 * time.Millisecond

// TestCommands measures what the commands of evidence cost the reader and the prober of the same device.
func TestCommands(t *testing.T) {
	costsBeside(t, "Commands", "commands", "a reading of a hw_counter and a query of the port every 100 ms, a hundred times the plugin's pace",
		1/1.02, func(dev verbs.Device) (stop func()) { return repeatCommands(t, dev) })
}

// wakeTurns is how often the wake-up is measured with and without what else is done: on a busy machine two turns differ by
// a tenth, and the bound is a fiftieth.
const wakeTurns = 61

// costsBeside measures the drain and the wake-up of a device with and without something that begin starts on it. least is
// the bound of the drain.
func costsBeside(t *testing.T, section, what, note string, least float64, begin func(dev verbs.Device) (stop func())) {
	t.Helper()
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	f := bench.Figure{Section: section, OtherIs: "without " + what}
	drained, wake := f, f
	drained.What, drained.Unit, drained.Bound, drained.AtLeast = "drain of 200,000 queued events beside "+what, "events/s", least, true
	drained.Note = note
	wake.What, wake.Unit, wake.Bound = "ud_send, wake p50, back to back, beside "+what, "us", 1.02
	for i := range turns {
		a, _ := openDevice(t)
		b, _ := openDevice(t)
		guest.Inject(t, device, guest.PKeyChange, 1, queued)
		inTurn(i, func() {
			stop := begin(a)
			rate, _ := drainEvents(t, a)
			stop()
			drained.Ours = append(drained.Ours, rate)
		}, func() {
			rate, _ := drainEvents(t, b)
			drained.Other = append(drained.Other, rate)
		})
		closeDevice(t, a)
		closeDevice(t, b)
	}
	a, _ := openDevice(t)
	defer closeDevice(t, a)
	for i := range wakeTurns {
		inTurn(i, func() {
			stop := begin(a)
			wake.Ours = append(wake.Ours, measureDirect(t, verbs.MethodUDSend, 4000).p50/1e3)
			stop()
		}, func() {
			wake.Other = append(wake.Other, measureDirect(t, verbs.MethodUDSend, 4000).p50/1e3)
		})
	}
	addFigures(drained, wake)
}

// repeatCommands reads a counter and queries the port again and again until it is stopped.
func repeatCommands(t *testing.T, dev verbs.Device) (stop func()) {
	return repeatCalls(often, func() {
		if err := dev.ReadCounter(1); err != nil {
			t.Error(err)
		}
		if _, err := dev.QueryPort(1); err != nil {
			t.Error(err)
		}
	})
}

// repeatCalls calls do at a fixed pace until it is stopped.
func repeatCalls(pace time.Duration, do func()) (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				do()
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}
