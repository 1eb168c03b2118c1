//go:build guest

package system

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// dropped is how long the link is down each time.
const dropped = 250 * time.Millisecond

func selectRecords(records []rig.Record, match func(rig.Record) bool) []rig.Record {
	return slices.DeleteFunc(slices.Clone(records), func(r rig.Record) bool { return !match(r) })
}

func isOpened(r rig.Record) bool {
	return r.Kind == "device" && r.Device == device && r.Reason == "ok"
}

func TestWatchShowsDropsAndNeverHoldsUpARemoval(t *testing.T) {
	for _, u := range testedUsers() {
		t.Run(u.name, func(t *testing.T) {
			guest.RequireGuest(t)
			guest.AddRxe(t, device, netdev)
			w := rig.StartWatch(t, u.prefix, "-probe")
			opens := func(n int) func([]rig.Record) bool {
				return func(r []rig.Record) bool { return len(selectRecords(r, isOpened)) == n }
			}
			w.Await("the device is open", 30*time.Second, opens(1))
			w.Await("a probe", 30*time.Second, func(r []rig.Record) bool {
				return len(selectRecords(r, func(r rig.Record) bool { return r.Probe != nil && r.Probe.Method == "ud_send" && r.Probe.WakeNS > 0 })) > 0
			})

			stamps, err := guest.FlapLink(t.Context(), netdev, guest.Flaps{Count: 8, Down: dropped, Period: 2 * dropped})
			if err != nil {
				t.Fatal(err)
			}
			requireDrops(t, w, stamps)

			began := time.Now()
			guest.DeleteLink(t, device)
			checkDuration(t, "rdma link delete beside watch", time.Since(began), time.Second)
			w.Await("the removal", 20*time.Second, func(r []rig.Record) bool {
				return len(selectRecords(r, func(r rig.Record) bool { return r.Kind == "device" && r.Reason == "deleted" })) == 1
			})
			guest.AddLink(t, device, "rxe", netdev)
			w.Await("the device is open again", 30*time.Second, opens(2))
			guest.Inject(t, device, guest.SMChange, 1, 3)
			w.Await("events of the new device", 20*time.Second, func(r []rig.Record) bool {
				var n uint64
				for _, one := range selectRecords(r, func(r rig.Record) bool { return r.Event == "sm_change" }) {
					n += one.Count
				}
				return n == 3
			})
			began = time.Now()
			w.End(syscall.SIGINT)
			checkDuration(t, "the end after Ctrl-C", time.Since(began), time.Second)
		})
	}
}

// requireDrops compares the shown durations with the times between the records, and with the times at which the link
// was changed. The witness of a change is a query instead of an event if a query of the port comes between the change
// and its event.
func requireDrops(t *testing.T, w *rig.Watch, stamps []guest.LinkChange) {
	t.Helper()
	up := func(r rig.Record) bool { return r.StateFrom == "down" && r.StateTo == "active" }
	drops := len(stamps) / 2
	records := w.Await("all drops", 20*time.Second, func(r []rig.Record) bool { return len(selectRecords(r, up)) == drops })
	down := selectRecords(records, func(r rig.Record) bool { return r.StateFrom == "active" && r.StateTo == "down" })
	if len(down) != drops {
		t.Fatalf("want %d drops, got %+v of %+v", drops, down, records)
	}
	for i, r := range selectRecords(records, up) {
		if event := r.Witness == "event" && r.Event == "port_active"; !event && r.Witness != "query" || r.Device != device || r.Port != 1 {
			t.Errorf("want an event or a query of %s port 1, got %+v", device, r)
		}
		want := time.Duration(middleOfChange(stamps[2*i+1]) - middleOfChange(stamps[2*i]))
		if apart := r.Time.Sub(down[i].Time); (apart - time.Duration(r.LastedNS)).Abs() > standstill {
			t.Errorf("want the time since the drop, %v, got %v", apart, time.Duration(r.LastedNS))
		}
		off := (time.Duration(r.LastedNS) - want).Abs()
		t.Logf("drop %d: how long it lasted is off by %v", i, off)
		if off > standstill {
			t.Errorf("drop %d: want %v, got %v", i, want, time.Duration(r.LastedNS))
		}
	}
}
