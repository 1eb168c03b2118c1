//go:build guest

package system

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/lab/witness"
	"rdma_events/tests/rig"
)

const withObjects = quiet + `
  [inputs.rdma_events.applications]
    objects = true
`

func TestWhoHoldsWhatIsAsRDMAResourceShowsIt(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	runUnprivileged(t, func(t *testing.T, start func(plugin string) *rig.Telegraf) {
		a := &readded{device: device, netdev: netdev}
		index := a.index(t, a.address(t))
		connectQueuePair(t, index)
		r := start(withObjects)
		agrees := func(what string) {
			t.Helper()
			points := r.Await(what, 2*time.Minute, func(points []rig.Point) bool {
				got := witness.ObjectsReported(points, device)
				return len(got) > 0 && got.Equal(witness.ObjectsShown(t, device))
			})
			t.Logf("%s: %v", what, witness.ObjectsReported(points, device))
		}
		agrees("what each program holds")
		own := filepath.Base(os.Args[0])
		if len(own) > 15 {
			own = own[:15]
		}
		last := func(field string) int64 {
			return rig.Last(r.Points(), "rdma_app", "device", device, "app", own).Int(field)
		}
		require.EqualValues(t, 1, last("processes"))
		require.EqualValues(t, 1, last("qps_rts"))
		connectQueuePair(t, index)
		r.Await("one more of each but queue pairs, within ten seconds", 30*time.Second, func([]rig.Point) bool {
			return last("contexts") == 2 && last("pds") == 2 && last("cqs") == 2
		})
		require.EqualValues(t, 1, last("processes"))
	})
}
