//go:build linux && cgo

package verbs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/ledger"
	"rdma_events/internal/verbs"
)

// The native backend against a stand-in for libibverbs (testdata/standin). The
// library is opened once per process and hangs on demand, so every order to it
// is carried out by this test program, started again with the stand-in in its
// library path.

// order is what a helper process is to do; report what came of it.
type order struct {
	Kind string // a name of drivers

	Method    verbs.Method
	Rounds    int
	Timeout   time.Duration // of a round; 0: too long to pass by itself
	AckBatch  int
	GIDIndex  int
	PKeyIdx   int
	Plan      string // what becomes of each post; testdata/standin/plan.c has the letters
	Stray     int    // after this round an event comes late
	WCStatus  int32  // -1: success
	PostErr   int32
	Legacy    bool
	LinkLayer verbs.LinkLayer

	Failures []failure
	Events   []event
	Hang     ledger.Call
}

type (
	// failure is a verb that fails while the stage's call is under way.
	failure struct {
		Stage  string // "open", "query", "probe", "round", "close probe", "read", "close"
		Call   ledger.Call
		Errno  int32
		Style  int32
		Skip   int32 // so many calls go well first
		Method verbs.Method
		Plan   string // as in order; its rounds are given up
		NoNode bool
		Netns  bool
	}
	// event is an asynchronous event; "cq", "qp", "srq" and "wq" stand for the
	// pointers of those objects.
	event struct {
		Type    int32
		Element uint64
		Object  string
	}
	report struct {
		Rounds    []roundReport
		Counts    ledger.ProbeCounts
		Events    []ledger.EventCounts
		Runs      []verbs.Run
		Port      verbs.PortAttr
		Attr      verbs.DeviceAttr
		Errors    map[string]errReport
		Failures  []errReport
		Reader    ledger.Lane
		Busy      ledger.Lane
		Took      time.Duration
		Trace     []string
		Violation string
	}
	roundReport struct {
		verbs.Round
		Usable  bool
		Unacked uint64
	}
	errReport struct {
		Text string
		Is   []string
	}
)

const standinOrder = "STANDIN_ORDER"

func TestMain(m *testing.M) {
	if text := os.Getenv(standinOrder); text != "" {
		os.Exit(helper(text))
	}
	os.Exit(runTests(m))
}

// libraryDir is where the stand-in is compiled into. It outlives the test that
// needs it first.
var libraryDir string

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "standin")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	libraryDir = dir
	return m.Run()
}

// compileLibrary returns the stand-in's file.
var compileLibrary = sync.OnceValues(func() (string, error) {
	files, err := filepath.Glob("testdata/standin/*")
	if err != nil {
		return "", err
	}
	var sources []string
	for _, f := range files {
		// The test cache knows of the files that this process looks at, not of the compiler's.
		if _, err := os.Stat(f); err != nil {
			return "", err
		}
		if filepath.Ext(f) == ".c" {
			sources = append(sources, f)
		}
	}
	file := filepath.Join(libraryDir, "libibverbs.so.1")
	args := append([]string{"-shared", "-fPIC", "-g", "-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror",
		"-Wl,-soname,libibverbs.so.1", "-o", file}, sources...)
	if out, err := exec.Command("cc", append(args, "-lpthread")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the stand-in: %w\n%s", err, out)
	}
	return file, nil
})

func library(t *testing.T) string {
	t.Helper()
	file, err := compileLibrary()
	require.NoError(t, err)
	return file
}

// carryOut has a helper process with the stand-in do o.
func carryOut(t *testing.T, o order) report {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return carryOutWith(t, o, exe, filepath.Dir(library(t)))
}

// carryOutWith is carryOut of another program or with another library path.
func carryOutWith(t *testing.T, o order, exe, libraries string) report {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = long
	}
	text, err := json.Marshal(o)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	// The race detector sleeps a second at a program's end if it is not told otherwise.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", standinOrder+"="+string(text), "LD_LIBRARY_PATH="+libraries,
		"STANDIN_ROOT="+standinRoot(t), "STANDIN_CONTROL="+filepath.Join(t.TempDir(), "control"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)
	var r report
	require.NoError(t, json.Unmarshal(out, &r), "%s", out)
	return r
}

// well is carryOut of an order that breaks no rule of the library and ends with
// everything closed.
func well(t *testing.T, o order) report {
	t.Helper()
	r := carryOut(t, o)
	require.Empty(t, r.Violation)
	require.Empty(t, r.Errors)
	return r
}

// standinRoot makes the sysfs of the stand-in's device, and beside it its node.
func standinRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	device := "sys/class/infiniband/standin0/"
	for name, text := range map[string]string{
		device + "node_type":                 "1: CA\n",
		device + "node_guid":                 "5254:00ff:fe12:3456\n",
		device + "ports/1/pkeys/0":           "0x7fff\n",
		device + "ports/1/pkeys/1":           "0xffff\n",
		device + "ports/1/pkeys/2":           "0x8001\n",
		device + "ports/1/gids/0":            "fe80:0000:0000:0000:0000:0000:0000:0001\n",
		device + "ports/1/gids/1":            "fe80:0000:0000:0000:0000:0000:0000:0002\n",
		device + "ports/1/gids/2":            "0000:0000:0000:0000:0000:ffff:0a00:0003\n",
		device + "ports/1/gids/3":            "0000:0000:0000:0000:0000:ffff:0a00:0004\n",
		device + "ports/1/gids/4":            "0000:0000:0000:0000:0000:0000:0000:0000\n",
		device + "ports/1/gid_attrs/types/0": "IB/RoCE v1\n",
		device + "ports/1/gid_attrs/types/1": "RoCE v2\n",
		device + "ports/1/gid_attrs/types/2": "IB/RoCE v1\n",
		device + "ports/1/gid_attrs/types/3": "RoCE v2\n",

		"sys/class/infiniband_verbs/uverbs0/ibdev":   "standin0\n",
		"sys/module/ib_core/parameters/netns_mode":   "Y\n",
		"netns/module/ib_core/parameters/netns_mode": "N\n",
		"netns/class/infiniband_verbs/uverbs0/ibdev": "standin0\n",
		"dev/uverbs0": "",
	} {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}
