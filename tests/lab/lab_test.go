//go:build lab

package lab

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// guestBinary is a package whose tests with the build tag guest run in a guest of their own.
type guestBinary struct {
	pkg     string
	tests   string // a regular expression for the tests that belong in the guest; "" is all
	memory  int    // MiB; 0 is the harness's default
	rxeOnly bool   // its tests do not depend on the driver
	env     []string
	timeout time.Duration // 0: twenty minutes, ten with -short
}

var guestBinaries = []guestBinary{
	{pkg: "./tests/lab/guest", rxeOnly: true},
	{pkg: "./internal/verbs", tests: "^TestNativeBackend"},
	{pkg: "./internal/hotplug", tests: "^TestOnARealKernel", rxeOnly: true},
	{pkg: "./internal/confine", rxeOnly: true},
	{pkg: "./tests/lab/system"},
	{pkg: "./tests/grafana", tests: "^TestOnARealDevice", rxeOnly: true},
}

// variant is what the tests run on, and in which form.
type variant struct {
	name, kernel, driver string
	library              string // the release of rdma-core; "" is this machine's, whichever that is
	short                bool   // without the tests' long forms
}

// usual is what TestGuest runs on; LAB_KERNEL names another kernel.
func usual() variant {
	return variant{
		name: "release/rxe", kernel: cmp.Or(os.Getenv("LAB_KERNEL"), DefaultKernel), driver: "rxe", short: testing.Short(),
	}
}

// matrix is what TestGuestMatrix adds to it. With it, each kernel and each driver has seen the long forms.
var matrix = []variant{
	{name: "release/siw", kernel: DefaultKernel, driver: "siw", short: true},
	{name: "backports/rxe", kernel: BackportsKernel, driver: "rxe", short: true},
	{name: "backports/siw", kernel: BackportsKernel, driver: "siw"},
}

// programs are handed to the tests by these variables, when they have been built.
var programs = map[string]string{
	"RDMA_EVENTS_BIN":    "build/rdma-events",
	"RDMA_EVENTS_WORKER": "build/rdma-events-worker",
	"TELEGRAF_BIN":       "build/tools/telegraf",
	"INFLUXD_BIN":        "build/tools/influxd",
}

var root = sync.OnceValues(func() (string, error) { return filepath.Abs("../..") })

var prepared = sync.OnceValues(func() (*Image, error) {
	dir, err := root()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	return Prepare(ctx, filepath.Join(dir, "build", "lab"))
})

// TestGuest runs every guest binary; RDMA_EVENTS_LAB_RUN is a regular expression for the tests in them, and
// go test's own -run chooses among the binaries: -run TestGuest/internal/verbs. With -short the tests in the
// guest leave out their long forms.
func TestGuest(t *testing.T) {
	img, dir := image(t)
	runBinaries(t, img, dir, usual())
}

// TestGuestMatrix runs them on the other kernels and drivers: -run TestGuestMatrix/backports/siw.
func TestGuestMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("other kernels and drivers belong to the long form: make test-full")
	}
	for _, v := range matrix {
		t.Run(v.name, func(t *testing.T) {
			img, dir := imageOf(t, v.kernel)
			runBinaries(t, img, dir, v)
		})
	}
}

// libraryBinaries are those of guestBinaries that have to do with libibverbs.
var libraryBinaries = []guestBinary{
	{pkg: "./internal/verbs", tests: "^TestNativeBackend"},
	{pkg: "./tests/lab/system"},
}

// TestGuestWithTheNextLibrary runs them with libibverbs of the next Debian release, in their short forms; with
// -short the one test that is about the library, which TestGuest has run with this machine's.
func TestGuestWithTheNextLibrary(t *testing.T) {
	img, dir := image(t)
	img, err := img.WithNextLibrary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v := usual()
	v.library, v.short = NextLibrary, true
	if testing.Short() {
		guestBinary{pkg: "./tests/lab/system", tests: "^TestThisLibrary"}.run(t, img, dir, v)
		return
	}
	for _, b := range libraryBinaries {
		t.Run(strings.TrimPrefix(b.pkg, "./"), func(t *testing.T) { b.run(t, img, dir, v) })
	}
}

// moves are the tests of a device that is moved to another network namespace, which Linux before 7.3 refuses with
// every driver that works without hardware.
const moves = "^TestADeviceThatMoves"

// TestGuestOnTheNewestKernel runs what the other kernels cannot do.
func TestGuestOnTheNewestKernel(t *testing.T) {
	if testing.Short() {
		t.Skip("other kernels and drivers belong to the long form: make test-full")
	}
	img, dir := imageOf(t, NewestKernel)
	t.Logf("Linux %s, rxe", img.Release)
	guestBinary{pkg: "./tests/lab/system", tests: moves}.run(t, img, dir, variant{name: "newest/rxe", driver: "rxe", short: true})
}

func runBinaries(t *testing.T, img *Image, dir string, v variant) {
	if v.driver == "siw" {
		var err error
		if img, err = img.WithSIW(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("Linux %s, %s", img.Release, v.driver)
	for _, b := range guestBinaries {
		if b.rxeOnly && v.driver != "rxe" {
			continue
		}
		t.Run(strings.TrimPrefix(b.pkg, "./"), func(t *testing.T) {
			b.run(t, img, dir, v)
		})
	}
}

// TestThePackage installs the package that make package has made in a guest.
func TestThePackage(t *testing.T) {
	img, dir := image(t)
	debs, err := filepath.Glob(filepath.Join(dir, "dist", "*_amd64.deb"))
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case len(debs) == 1:
	case os.Getenv("RDMA_EVENTS_REQUIRE") == "package":
		t.Fatalf("want one package for amd64 in dist, got %v; run: make package", debs)
	default:
		t.Skip("no package for amd64 is in dist; make try-packages makes one and runs this test")
	}
	guestBinary{pkg: "./tests/lab/packaged", env: []string{"RDMA_EVENTS_DEB=" + debs[0]}}.run(t, img, dir, usual())
}

// TestTheImage runs the container image that make try-image has built in a guest.
func TestTheImage(t *testing.T) {
	img, dir := image(t)
	rootfs := filepath.Join(dir, "build", "image", "rootfs")
	switch _, err := os.Stat(filepath.Join(rootfs, "usr/bin/telegraf")); {
	case err == nil:
	case os.Getenv("RDMA_EVENTS_REQUIRE") == "image":
		t.Fatalf("no image is in %s: %v; run: make try-image", rootfs, err)
	default:
		t.Skip("no image is in build/image; make try-image makes one and runs this test")
	}
	guestBinary{pkg: "./tests/lab/contained", env: []string{"RDMA_EVENTS_ROOTFS=" + rootfs}}.run(t, img, dir, usual())
}

func image(t *testing.T) (img *Image, dir string) {
	t.Helper()
	img, err := prepared()
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = root(); err != nil {
		t.Fatal(err)
	}
	return img, dir
}

func imageOf(t *testing.T, kernel string) (img *Image, dir string) {
	t.Helper()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	if img, err = PrepareKernel(t.Context(), filepath.Join(dir, "build", "lab"), kernel); err != nil {
		t.Fatal(err)
	}
	return img, dir
}

func (b guestBinary) run(t *testing.T, img *Image, dir string, v variant) {
	var output bytes.Buffer
	yardstick, err := img.CompileC(t.Context(), filepath.Join(dir, "tests/bench/cqprobe/cqprobe.c"), "-libverbs")
	if err != nil {
		t.Fatal(err)
	}
	timeout := cmp.Or(b.timeout, 20*time.Minute)
	if v.short {
		timeout = 15 * time.Minute
	}
	job := Job{
		Path: b.compile(t, dir),
		Args: []string{
			"-test.v=test2json", "-test.run=" + b.filter(), "-test.skip=" + b.skip(), fmt.Sprintf("-test.short=%t", v.short),
			// Before the guest's, so that the stacks of what hangs are seen.
			fmt.Sprintf("-test.timeout=%v", timeout-time.Minute),
		},
		Env: slices.Concat(programEnv(dir), []string{
			"CQPROBE_BIN=" + yardstick, "LAB_DRIVER=" + v.driver, "LAB_LIBRARY=" + v.library,
			"RDMA_EVENTS_SEED=" + os.Getenv("RDMA_EVENTS_SEED"),
		}, b.env),
		Dir:     filepath.Join(dir, b.pkg),
		Stdout:  io.MultiWriter(&output, &prefixed{w: t.Output(), start: true}),
		Memory:  b.memory,
		Timeout: timeout,
	}
	res, err := img.Run(t.Context(), job)
	t.Logf("boot %.1f s after %d that stalled, all %.1f s; /out was %s",
		res.Boot.Seconds(), res.Stalled, res.Total.Seconds(), res.OutDir)
	if err != nil {
		t.Error(err)
	}
	judge(t, v, ParseOutcomes(output.String()), res.ExitCode)
}

func (b guestBinary) filter() string {
	if chosen := os.Getenv("RDMA_EVENTS_LAB_RUN"); chosen != "" {
		return chosen
	}
	return b.tests
}

func (b guestBinary) compile(t *testing.T, dir string) string {
	t.Helper()
	name := strings.ReplaceAll(strings.TrimPrefix(b.pkg, "./"), "/", "-") + ".test"
	path := filepath.Join(dir, "build", "lab", "tests", name)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "guest", "-o", path, b.pkg)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile guest tests of %s: %v\n%s", b.pkg, err, out)
	}
	return path
}

func judge(t *testing.T, v variant, outcomes []Outcome, exitCode int) {
	t.Helper()
	if len(outcomes) == 0 {
		t.Error("no test ran in the guest")
	}
	for _, o := range outcomes {
		t.Run(o.Name, func(t *testing.T) {
			switch o.Verdict {
			case "PASS":
			case "SKIP":
				reason := maySkip(o.Name, v)
				if reason == "" {
					t.Fatalf("skipped in the guest, where nothing may be missing:\n%s", o.Log)
				}
				t.Skip(reason)
			case "FAIL":
				t.Errorf("failed in the guest:\n%s", o.Log)
			default:
				t.Errorf("did not end in the guest:\n%s", o.Log)
			}
		})
	}
	if exitCode != 0 && !t.Failed() {
		t.Errorf("all tests passed, but the test binary exited with %d", exitCode)
	}
}

func programEnv(dir string) []string {
	var env []string
	for name, path := range programs {
		path = filepath.Join(dir, path)
		if _, err := os.Stat(path); err == nil {
			env = append(env, name+"="+path)
		}
	}
	return env
}

// prefixed marks relayed lines, so that nobody takes an inner verdict for an outer one.
type prefixed struct {
	w     io.Writer
	start bool
}

func (p *prefixed) Write(b []byte) (int, error) {
	for line := range bytes.Lines(bytes.ReplaceAll(b, []byte("\x16"), nil)) {
		if p.start {
			line = append([]byte("guest| "), line...)
		}
		p.start = line[len(line)-1] == '\n'
		if _, err := p.w.Write(line); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
