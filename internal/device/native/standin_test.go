//go:build linux && cgo

package native_test

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

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// These tests run the native backend with a stand-in for libibverbs (package
// standin). The library is loaded once per process and hangs on demand, so each
// order is carried out by a new process of this test program, with the stand-in
// in its library path.

// order is the task of a helper process; report is its result.
type order struct {
	Kind    string // a name of drivers
	Profile string // a name of standin.Profiles

	Method     verbs.Method
	Rounds     int
	Timeout    time.Duration // of a round; 0: too long to pass by itself
	AckBatch   int
	GIDIndex   int
	PKeyIndex  int
	Plan       string        // result of each post; the stand-in's plan.c has the letters
	Stray      int           // after this round an event comes late
	Pause      time.Duration // before each round
	EventDelay time.Duration // from a completion to its event
	Arm        int32         // when the arm raises an event by itself
	OldKernel  bool          // a closed channel returns EAGAIN
	WCStatus   int32         // -1: success
	PostErr    int32
	Legacy     bool
	LinkLayer  verbs.LinkLayer // 0: Ethernet
	NoLayer    bool            // the link layer is unspecified, as on efa
	NeedsGRH   bool            // IBV_QPF_GRH_REQUIRED
	Speed      int32           // active_speed; 0: EDR
	Effective  int32           // answer of ibv_query_port_speed; 0: unsupported; negative: -errno
	Rate       string          // of sysfs; "": cannot be read

	Scene    string // a name of scenes, of the Fabric
	Fabric   verbs.FabricOptions
	Failures []failure
	Events   []event
	Hang     ledger.Call
}

type (
	// failure is a verb that fails while the stage's call is under way.
	failure struct {
		Stage  string // "open", "query", "probe", "round", "next round", "close probe", "read", "close"
		Call   ledger.Call
		Errno  int32
		Style  int32
		Skip   int32 // number of calls that succeed first
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
		Rounds     []roundReport
		Counts     ledger.ProbeCounts
		Events     []ledger.EventCounts
		Runs       []verbs.Run
		Port       verbs.PortAttr
		Attr       verbs.DeviceAttr
		Errors     map[string]errReport
		Failures   []errReport
		LinkDowned []bool
		Reader     ledger.ThreadCall
		Busy       ledger.ThreadCall
		Evidence   ledger.ThreadCall
		Took       time.Duration
		Trace      []string
		Opened     []string // files of sysfs
		Violation  string
		Observed   observation // of a profile
		Fabrics    []ledger.FabricState
		Facts      map[string][]verbs.FabricFact // by what was done
		Made       verbs.FabricPort
		Steps      map[string]int // numbers of calls, and whatever a scene counts
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
		os.Exit(runHelper(text))
	}
	os.Exit(runTests(m))
}

// libraryDir is the directory into which the stand-in is compiled. It exists until all
// tests have ended.
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
var compileLibrary = sync.OnceValues(func() (string, error) { return standin.Compile("../../conformance/standin/testdata", libraryDir) })

func standInLibrary(t *testing.T) string {
	t.Helper()
	file, err := compileLibrary()
	require.NoError(t, err)
	return file
}

// carryOut carries out o in a helper process with the stand-in.
func carryOut(t *testing.T, o order) report {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return carryOutWith(t, o, exe, filepath.Dir(standInLibrary(t)))
}

// carryOutWith is like carryOut, but with a given program and library path.
func carryOutWith(t *testing.T, o order, exe, libraries string) report {
	t.Helper()
	return startOrder(t, o, exe, libraries)(t)
}

// startOrder is like carryOutWith, but does not wait for the report. The function end waits for it.
func startOrder(t *testing.T, o order, exe, libraries string) (end func(*testing.T) report) {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = long
	}
	text, err := json.Marshal(o)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, exe)
	// By default the race detector sleeps a second at a program's end.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", standinOrder+"="+string(text), "LD_LIBRARY_PATH="+libraries,
		"STANDIN_ROOT="+standinRoot(t), "STANDIN_CONTROL="+filepath.Join(t.TempDir(), "control"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	return func(t *testing.T) report {
		t.Helper()
		require.NoError(t, cmd.Wait(), "%s", &stderr)
		var r report
		require.NoError(t, json.Unmarshal(stdout.Bytes(), &r), "%s", &stdout)
		return r
	}
}

// mustCarryOut is like carryOut. It also requires that the order breaks no rule of the library and that no step fails.
func mustCarryOut(t *testing.T, o order) report {
	t.Helper()
	r := carryOut(t, o)
	require.Empty(t, r.Violation)
	require.Empty(t, r.Errors)
	return r
}

// standinRoot creates the sysfs of the stand-in's device, and its node next to it.
func standinRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, standin.WriteSysfs(root+"/sys", "standin0", "uverbs0"))
	for name, text := range map[string]string{
		"sys/module/ib_core/parameters/netns_mode":   "Y\n",
		"netns/module/ib_core/parameters/netns_mode": "N\n",
		"netns/class/infiniband_verbs/uverbs0/ibdev": "standin0\n",
		"dev/uverbs0": "",
	} {
		require.NoError(t, standin.WriteFile(filepath.Join(root, name), text))
	}
	return root
}
