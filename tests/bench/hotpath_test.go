//go:build bench

package bench

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// measureHotPath runs the micro-benchmarks that are beside the code.
func measureHotPath(t *testing.T) *Report {
	t.Helper()
	cmd := exec.Command("go", "test", "-run=^$", "-bench=.", "-benchmem", "-count=7", "-benchtime=200ms",
		"./internal/device/session", "./internal/device/ledger", "./internal/device/portstate", "./internal/telemetry/aggregate", "./internal/device/monitor")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run micro-benchmarks: %v\n%s", err, out)
	}
	return parseBenchmarks(string(out))
}

// parseBenchmarks reads the output of go test -bench -benchmem.
func parseBenchmarks(out string) *Report {
	var r Report
	at := map[string]int{}
	pkg := ""
	for l := range strings.Lines(out) {
		f := strings.Fields(l)
		if len(f) == 2 && f[0] == "pkg:" {
			pkg = strings.TrimPrefix(f[1], "rdma_events/internal/")
		}
		if len(f) < 8 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name, _, _ := strings.Cut(pkg+": "+strings.TrimPrefix(f[0], "Benchmark"), "-")
		i, ok := at[name]
		if !ok {
			i = len(r.Figures)
			at[name] = i
			r.Figures = append(r.Figures,
				Figure{Section: "Hot path", What: name, Unit: "ns"},
				Figure{Section: "Hot path", What: name + ", allocations", Unit: "per call"})
		}
		ns, _ := strconv.ParseFloat(f[2], 64)
		allocs, _ := strconv.ParseFloat(f[6], 64)
		r.Figures[i].Ours = append(r.Figures[i].Ours, ns)
		r.Figures[i+1].Ours = append(r.Figures[i+1].Ours, allocs)
	}
	return &r
}
