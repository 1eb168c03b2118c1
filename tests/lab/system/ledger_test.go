//go:build guest

package system

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"rdma_events/internal/device/ledger"
)

// ledgerOf copies the ledger of a running worker, with the events that it has read
// and acknowledged by now, reported or not.
func ledgerOf(t *testing.T, worker int) ledger.Contents {
	t.Helper()
	for line := range strings.Lines(processFile(t, worker, "maps")) {
		if !strings.Contains(line, "/memfd:rdma_events-") {
			continue
		}
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/map_files/%s", worker, mappedAt(line)), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		l, err := ledger.Open(f)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var s ledger.Contents
		l.CopyTo(&s)
		return s
	}
	t.Fatalf("process %d has no ledger mapped", worker)
	return ledger.Contents{}
}

// mappedAt returns the range of addresses in a line of proc_pid_maps(5), without
// leading zeros, as in the names in map_files.
func mappedAt(line string) string {
	from, to, _ := strings.Cut(strings.Fields(line)[0], "-")
	return strings.TrimLeft(from, "0") + "-" + strings.TrimLeft(to, "0")
}
