//go:build guest

package inguest

import (
	"testing"
	"time"

	"rdma_events/internal/verbs"
	"rdma_events/tests/bench"
	"rdma_events/tests/lab/guest"
)

// often is the pace of the commands here, a hundredth of the plugin's. Soft RoCE has hw_counters and answers at once, so
// that this is the cost on the host's side.
const often = 100 * time.Millisecond

// TestCommands measures what the commands of evidence cost the reader and the prober of the same device: each is run with
// and without a goroutine that reads a counter and queries the port.
func TestCommands(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	f := bench.Figure{Section: "Commands", OtherIs: "without commands"}
	drained, wake := f, f
	drained.What, drained.Unit, drained.Bound, drained.AtLeast = "drain of 200,000 queued events beside commands", "events/s", 1/1.02, true
	drained.Note = "a reading of a hw_counter and a query of the port every 100 ms, a hundred times the plugin's pace"
	wake.What, wake.Unit, wake.Bound = "ud_send, wake p50, back to back, beside commands", "us", 1.02
	for i := range turns {
		a, b := openDevice(t), openDevice(t)
		guest.Inject(t, device, guest.PKeyChange, 1, queued)
		inTurn(i, func() {
			stop := ask(t, a)
			rate, _ := drain(t, a)
			stop()
			drained.Ours = append(drained.Ours, rate)
		}, func() {
			rate, _ := drain(t, b)
			drained.Other = append(drained.Other, rate)
		})
		inTurn(i, func() {
			stop := ask(t, a)
			wake.Ours = append(wake.Ours, direct(t, verbs.MethodUDSend, 4000).p50/1e3)
			stop()
		}, func() {
			wake.Other = append(wake.Other, direct(t, verbs.MethodUDSend, 4000).p50/1e3)
		})
		closeDevice(t, a)
		closeDevice(t, b)
	}
	add(drained, wake)
}

// ask makes commands until it is stopped.
func ask(t *testing.T, dev verbs.Device) (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(often)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			if err := dev.ReadCounter(1); err != nil {
				t.Error(err)
			}
			if _, err := dev.QueryPort(1); err != nil {
				t.Error(err)
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}
