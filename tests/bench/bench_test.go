//go:build bench

package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"rdma_events/docs/document"
	"rdma_events/tests/lab"
)

const root = "../.."

// TestBench measures everything and writes docs/explanation/performance.md. A part that fails
// is left out.
func TestBench(t *testing.T) {
	began := time.Now()
	var r Report
	kernel := "no lab"
	t.Run("lab", func(t *testing.T) {
		inLab, release := measureInLab(t)
		r.add(inLab)
		kernel = release
	})
	t.Run("quiet", func(t *testing.T) { r.add(measureQuiet(t)) })
	t.Run("scale", func(t *testing.T) { r.add(measureScale(t)) })
	t.Run("hot path", func(t *testing.T) { r.add(measureHotPath(t)) })
	var b bytes.Buffer
	if err := r.Render(&b, reportHead(kernel, time.Since(began))); err != nil {
		t.Fatal(err)
	}
	if err := document.Rewrite(filepath.Join(root, "docs/explanation/performance.md"), "benchmarks", b.String()); err != nil {
		t.Fatal(err)
	}
}

func (r *Report) add(part *Report) {
	r.Figures = append(r.Figures, part.Figures...)
	r.Tables = append(r.Tables, part.Tables...)
}

func reportHead(kernel string, took time.Duration) string {
	return fmt.Sprintf(`Written by %[1]smake bench%[1]s of commit %[7]s, in %[2]v.
Values are the median of the turns with their spread; a ratio is ours through the
other's, taken in each turn, in which both run one after the other in changing order. The lab is an emulated machine
with two cores, Linux %[3]s, soft RoCE on a dummy netdev: its ratios mean
something, its absolute times are some ten times those of real hardware, and its
speed drifts. Scale and hot path are this machine's: %[4]d cores, %[5]s, %[6]s.
`, "`", took.Round(time.Second), kernel, runtime.NumCPU(), cpuModel(), runtime.Version(), commitName())
}

func commitName() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	_, rest, _ := strings.Cut(string(text), "model name")
	model, _, _ := strings.Cut(strings.TrimLeft(rest, "\t :"), "\n")
	return strings.TrimSpace(model)
}

// measureInLab runs the tests of inguest in a guest.
func measureInLab(t *testing.T) (*Report, string) {
	t.Helper()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	img, err := lab.Prepare(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "build/lab/tests/inguest.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", "guest", "-o", binary, "./inguest").CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	job := lab.Job{
		Path: binary, Args: []string{"-test.v", "-test.timeout=60m", "-test.run=" + os.Getenv("BENCH_RUN")},
		Dir: filepath.Join(dir, "tests/bench/inguest"), Stdout: logWriter{t}, Memory: 2048, Timeout: 61 * time.Minute,
		Env: []string{
			"RDMA_EVENTS_BIN=" + filepath.Join(dir, "build/rdma-events"),
			"TELEGRAF_BIN=" + filepath.Join(dir, "build/tools/telegraf"),
			"TELEGRAF_PEER_BIN=" + filepath.Join(dir, "build/tools/telegraf-infiniband"),
			"NODE_EXPORTER_BIN=" + filepath.Join(dir, "build/tools/prometheus-node-exporter"),
			"CQPROBE_BIN=" + compileC(t, img, "cqprobe"),
			"ASYNCDRAIN_BIN=" + compileC(t, img, "asyncdrain"),
			"FILESREAD_BIN=" + compileC(t, img, "filesread"),
			"BENCH_REPORT=/out/report.json",
		},
	}
	res, err := img.Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if res.ExitCode != 0 {
		t.Errorf("some of it could not be measured: exit status %d", res.ExitCode)
	}
	r, err := Load(filepath.Join(res.OutDir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	return r, img.Release
}

func compileC(t *testing.T, img *lab.Image, name string) string {
	t.Helper()
	path, err := img.CompileC(t.Context(), filepath.Join(name, name+".c"), "-libverbs")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

type logWriter struct{ t *testing.T }

func (w logWriter) Write(b []byte) (int, error) { return w.t.Output().Write(b) }
