//go:build guest

package witness

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// Objects are the numbers of objects that programs hold on a device, by the name of the program and the field of rdma_app. A field that is
// 0 is absent.
type Objects map[string]map[string]int64

// ObjectsShown returns the objects of a device that rdma(8) shows, by the names of their processes.
func ObjectsShown(t testing.TB, device string) Objects {
	t.Helper()
	all := Objects{}
	for kind, field := range map[string]string{"ctx": "contexts", "pd": "pds", "cq": "cqs", "srq": "srqs", "qp": "qps"} {
		for _, o := range guest.Resources(t, kind, device) {
			app := "kernel"
			if thread, ok := o["pid"].(float64); ok {
				app = processName(int(thread))
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

// processName returns the name of the process that a thread belongs to (rdma(8) shows the name of the thread), or "ended" if the
// thread has ended.
func processName(thread int) string {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/[0-9]*/task/%d", thread))
	if err != nil || len(threads) != 1 {
		return "ended"
	}
	comm, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(threads[0])), "comm"))
	if err != nil {
		return "ended"
	}
	return strings.TrimSpace(string(comm))
}

// ObjectsReported returns the newest points of rdma_app of a device, in the words of ObjectsShown.
func ObjectsReported(points []rig.Point, device string) Objects {
	all := Objects{}
	for _, p := range rig.Select(points, "rdma_app", "device", device) {
		fields := map[string]int64{}
		for name := range p.Fields {
			if n := p.Int(name); n > 0 && name != "processes" {
				fields[strings.Replace(name, "qps_error", "qps_err", 1)] = n
			}
		}
		all[p.Tags["app"]] = fields
	}
	// The last point of a program that has ended has zeros alone.
	maps.DeleteFunc(all, func(_ string, fields map[string]int64) bool { return len(fields) == 0 })
	return all
}

// Equal reports whether both have the same objects of the same programs.
func (o Objects) Equal(other Objects) bool {
	return maps.EqualFunc(o, other, func(a, b map[string]int64) bool { return maps.Equal(a, b) })
}
