//go:build lab

package lab

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rdma_events/tests/prerequisite"
)

// suite is a package whose tests with the build tag guest run in guests.
type suite struct {
	pkg     string
	tests   string // a regular expression for the tests that belong in a guest; "" is all
	rxeOnly bool   // it runs with rxe only, because its tests do not depend on the driver
	guests  int    // the number of guests that share its tests; 0: one
	shared  string // the title of a guest that it shares with other suites; "": it has its own
}

// programs are the programs whose paths the tests get in environment variables, if they have been built.
var programs = map[string]string{
	"RDMA_EVENTS_BIN":    "build/rdma-events",
	"RDMA_EVENTS_WORKER": "build/rdma-events-worker",
	"RDMA_EVENTS_TRACER": "build/rdma-events-tracer",
	"TELEGRAF_BIN":       "build/tools/telegraf",
	"INFLUXD_BIN":        "build/tools/influxd",
}

// root returns the project's directory, without symbolic links.
var root = sync.OnceValues(func() (string, error) {
	dir, _, err := projectDirs("../..")
	return dir, err
})

// binaries builds the tests of all suites at once and returns the directory of the test binaries. A binary has the
// name of its package's directory.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := root()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "build", "guests")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	args := []string{"test", "-c", "-tags", "guest", "-o", out + "/"}
	for _, s := range slices.Concat(suites, []suite{fabric, packaged, contained, beside, pvrdma}) {
		args = append(args, s.pkg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	_, err = runCommand(ctx, dir, "go", args...)
	return out, err
})

func (s suite) name() string { return strings.TrimPrefix(s.pkg, "./") }

func (s suite) binary(t *testing.T) string {
	t.Helper()
	dir, err := binaries()
	if err != nil {
		t.Fatalf("compile guest tests: %v", err)
	}
	return filepath.Join(dir, filepath.Base(s.pkg)+".test")
}

// list returns the suite's tests whose names match the regular expression match and -guest.run, and none of the
// expressions in not.
func (s suite) list(t *testing.T, match string, not ...string) []string {
	t.Helper()
	dir := projectDir(t)
	var names []string
	out, err := runCommand(t.Context(), filepath.Join(dir, s.pkg), s.binary(t), "-test.list", cmp.Or(match, "."))
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(out) {
		name = strings.TrimSpace(name)
		if strings.HasPrefix(name, "Test") && regexp.MustCompile(*chosen).MatchString(name) && !matchesAny(not, name) {
			names = append(names, name)
		}
	}
	return names
}

func matchesAny(expressions []string, name string) bool {
	return slices.ContainsFunc(expressions, func(e string) bool { return regexp.MustCompile(e).MatchString(name) })
}

// session is one guest and the tests that run in it.
type session struct {
	title string // of the subtest, if there is one
	variant
	img     *Image
	suites  []suite  // run one after the other
	tests   []string // by name, of any of the suites
	cpus    int      // 0: one
	memory  int      // MiB; 0 is the harness's default
	env     []string
	out     string        // the host's directory of /out; "": a new one in the cache
	timeout time.Duration // 0: twenty minutes, fifteen for short forms
}

func (s session) run(t *testing.T) {
	t.Helper()
	if len(s.tests) == 0 {
		t.Skip("-guest.run leaves none of its tests")
	}
	var output bytes.Buffer
	dir := projectDir(t)
	timeout := cmp.Or(s.timeout, 20*time.Minute)
	if s.short && s.timeout == 0 {
		timeout = 15 * time.Minute
	}
	res, err := s.img.Run(t.Context(), Job{
		Path: "/bin/sh",
		Args: []string{"-c", s.script(t, dir, timeout)},
		Env: slices.Concat(programEnv(dir), []string{
			"LAB_DRIVER=" + s.driver, "LAB_LIBRARY=" + s.library, "RDMA_EVENTS_SEED=" + os.Getenv("RDMA_EVENTS_SEED"),
		}, s.env),
		Dir:     dir,
		OutDir:  s.out,
		Stdout:  io.MultiWriter(&output, &prefixed{w: t.Output(), start: true}),
		Memory:  s.memory,
		CPUs:    cmp.Or(s.cpus, 1),
		Timeout: timeout,
	})
	t.Logf("Linux %s, %s; boot %.1f s after %d that stalled, all %.1f s; /out was %s",
		s.img.Release, s.driver, res.Boot.Seconds(), res.Stalled, res.Total.Seconds(), res.OutDir)
	if err != nil {
		t.Error(err)
	}
	judgeOutcomes(t, s.variant, ParseOutcomes(output.String()), res.ExitCode)
}

// script returns a shell script that runs each suite to its end and exits with the status of the last one that failed.
func (s session) script(t *testing.T, dir string, timeout time.Duration) string {
	t.Helper()
	run := "^(" + strings.Join(s.tests, "|") + ")$"
	if *cases != "" {
		run += "/" + *cases
	}
	var b strings.Builder
	b.WriteString("status=0\n")
	for _, suite := range s.suites {
		args := []string{
			suite.binary(t), "-test.v=test2json", "-test.run=" + run, fmt.Sprintf("-test.short=%t", s.short),
			// This timeout ends before the guest's, so that the stacks of a hanging test are printed.
			fmt.Sprintf("-test.timeout=%v", timeout-time.Minute),
		}
		fmt.Fprintf(&b, "cd %s || exit 126\n", shellQuote(filepath.Join(dir, suite.pkg)))
		for _, arg := range args {
			b.WriteString(shellQuote(arg) + " ")
		}
		b.WriteString("|| status=$?\n")
	}
	b.WriteString("exit $status\n")
	return b.String()
}

func judgeOutcomes(t *testing.T, v variant, outcomes []Outcome, exitCode int) {
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

func prepareImage(t *testing.T, kernel string) *Image {
	t.Helper()
	img, err := PrepareKernel(t.Context(), projectDir(t), kernel)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func projectDir(t *testing.T) string {
	t.Helper()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
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

// prefixed marks relayed lines, so that the verdict of a test in the guest is not taken for a verdict of this binary.
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

// requireBuilt skips a test if err is not nil, because another target has not built what. It fails the test if
// RDMA_EVENTS_REQUIRE has what.
func requireBuilt(t *testing.T, what, target string, err error) {
	t.Helper()
	if err != nil {
		prerequisite.Missing(t, what, fmt.Sprintf("%v; %s makes it and runs this test", err, target))
	}
}

var errNotOne = errors.New("want one package for amd64 in dist")

// onlyPackage returns the one package of a name for amd64 that make package has made.
func onlyPackage(dir, name string) (string, error) {
	debs, err := filepath.Glob(filepath.Join(dir, "dist", name+"_*_amd64.deb"))
	if err == nil && len(debs) != 1 {
		err = fmt.Errorf("%w, got %v", errNotOne, debs)
	}
	if err != nil {
		return "", err
	}
	return debs[0], nil
}
