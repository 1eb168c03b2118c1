//go:build guest

package system

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

const withObjects = quiet + `
  [inputs.rdma_events.applications]
    objects = true
`

// holding are fields of rdma_app by application.
type holding map[string]map[string]int64

// shownByRDMA returns what rdma(8) shows of the device's objects, by the names of their processes.
func shownByRDMA(t *testing.T) holding {
	t.Helper()
	all := holding{}
	for kind, field := range map[string]string{"ctx": "contexts", "pd": "pds", "cq": "cqs", "srq": "srqs", "qp": "qps"} {
		for _, o := range guest.Resources(t, kind, device) {
			app := "kernel"
			if thread, ok := o["pid"].(float64); ok {
				app = leader(t, int(thread))
			}
			if all[app] == nil {
				all[app] = map[string]int64{}
			}
			all[app][field]++
			if state, ok := o["state"].(string); ok && kind == "qp" {
				all[app]["qps_"+strings.ToLower(state)]++
			}
		}
	}
	return all
}

// leader returns the name of the process of a thread. rdma(8) shows that of the thread.
func leader(t *testing.T, thread int) string {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/[0-9]*/task/%d", thread))
	require.NoError(t, err)
	require.Len(t, threads, 1)
	comm, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(threads[0])), "comm"))
	require.NoError(t, err)
	return strings.TrimSpace(string(comm))
}

// reportedApps returns the newest points of rdma_app, in the words of shownByRDMA.
func reportedApps(points []rig.Point) holding {
	all := holding{}
	for _, p := range rig.Select(points, "rdma_app", "device", device) {
		fields := map[string]int64{}
		for name := range p.Fields {
			if n := p.Int(name); n > 0 && name != "processes" {
				fields[strings.Replace(name, "qps_error", "qps_err", 1)] = n
			}
		}
		all[p.Tags["app"]] = fields
	}
	return all
}

func TestWhoHoldsWhatIsAsRDMAResourceShowsIt(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	unprivileged(t, func(t *testing.T, start func(plugin string) *rig.Telegraf) {
		a := &readded{device: device, netdev: netdev}
		index := a.index(t, a.address(t))
		connect(t, index)
		r := start(withObjects)
		agrees := func(what string) {
			t.Helper()
			points := r.Await(what, 2*time.Minute, func(points []rig.Point) bool {
				got := reportedApps(points)
				return len(got) > 0 && equal(got, shownByRDMA(t))
			})
			t.Logf("%s: %v", what, reportedApps(points))
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
		connect(t, index)
		r.Await("one more of each but queue pairs, within ten seconds", 30*time.Second, func([]rig.Point) bool {
			return last("contexts") == 2 && last("pds") == 2 && last("cqs") == 2
		})
		require.EqualValues(t, 1, last("processes"))
	})
}

func equal(a, b holding) bool {
	if len(a) != len(b) {
		return false
	}
	for app, fields := range a {
		if !maps.Equal(fields, b[app]) {
			return false
		}
	}
	return true
}
