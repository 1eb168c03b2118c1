package hardware

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/nldev"
	"rdma_events/internal/device/verbs"
)

// runTrial tries a device in a synctest bubble, because a real run takes minutes.
func runTrial(t *testing.T, w *fakeWorker, o Options, change func(*Host), more map[string]string) (r *Report, err error) {
	t.Helper()
	sys := writeSysfs(t, more)
	synctest.Test(t, func(t *testing.T) {
		h := hostOf(t, w, sys)
		if change != nil {
			change(h)
		}
		r, err = Run(t.Context(), h, o)
	})
	return r, err
}

func triedMethods(r *Report) map[string]bool {
	all := map[string]bool{}
	for _, m := range r.Methods {
		if m.Tried {
			all[m.Method] = true
		}
	}
	return all
}

func TestWithoutTerminalOnlyDatagramsAreSent(t *testing.T) {
	w := mlx5Worker()
	r, err := runTrial(t, w, Options{Device: "mlx5_0"}, nil, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"ud_send": true}, triedMethods(r))
	require.Equal(t, Allowed{}, r.Allowed)
	require.Contains(t, r.Methods[1].Why, "-yes")
	require.False(t, r.Auto[0].Tried)
	require.Nil(t, r.Flap)
	for _, o := range w.asked {
		require.Contains(t, []verbs.Method{verbs.MethodNone, verbs.MethodUDSend}, o.Probe.Method)
	}
}

func TestYesTriesAllButTheFlap(t *testing.T) {
	w := mlx5Worker()
	r, err := runTrial(t, w, Options{Device: "mlx5_0", Yes: true}, nil, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"ud_send": true, "rc_write": true, "flush": true}, triedMethods(r))
	require.Equal(t, []Auto{{Port: 1, Tried: true, Method: "rc_write", Reason: "as preferred"}}, r.Auto)
	require.Nil(t, r.Flap)
	require.Empty(t, r.Problems)
	require.Equal(t, "mlx5", r.Device.Row)
	require.Equal(t, Versions{Plugin: "1.2.3", Kernel: "6.1.0", Verbs: "44.0", Provider: "mlx5 44.0", ABI: "34", UverbsABI: "6"}, r.Versions)
	for _, o := range w.asked {
		switch o.Probe.Method {
		case verbs.MethodRCWrite, verbs.MethodUDSend, verbs.MethodAuto:
			require.Zero(t, o.Probe.GIDIndex, "%s holds the default GID alone", o.Probe.Method)
		case verbs.MethodFlush:
			require.Equal(t, -1, o.Probe.GIDIndex)
		}
	}
}

func TestOperatorIsAskedByName(t *testing.T) {
	for _, c := range []struct {
		yes   []bool
		tried map[string]bool
	}{
		{[]bool{false, false, false}, map[string]bool{"ud_send": true}},
		{[]bool{true, false, false}, map[string]bool{"ud_send": true, "rc_write": true}},
		{[]bool{false, true, false}, map[string]bool{"ud_send": true, "flush": true}},
	} {
		a := &answers{yes: c.yes}
		r, err := runTrial(t, mlx5Worker(), Options{Device: "mlx5_0"}, func(h *Host) { h.Ask = a.ask },
			map[string]string{class + "ports/1/hw_counters/resp_cqe_flush_error": "0"})
		require.NoError(t, err)
		require.Equal(t, c.tried, triedMethods(r))
		require.Len(t, a.asked, 3)
		require.Contains(t, a.asked[0], "default GID")
		require.Contains(t, a.asked[1], "resp_cqe_flush_error")
		require.Contains(t, a.asked[2], "loses its link")
		require.False(t, r.Auto[0].Tried)
	}
}

func TestFlapIsWatchedIfWanted(t *testing.T) {
	w := mlx5Worker()
	w.more = []verbs.Item{
		{Run: &verbs.Run{Type: verbs.EventPortErr, Port: 1, Count: 1, First: 7e9, HoldMax: 9}},
		{Run: &verbs.Run{Type: verbs.EventPortActive, Port: 1, Count: 2, First: 8e9}},
	}
	a := &answers{yes: []bool{false, false, true}}
	r, err := runTrial(t, w, Options{Device: "mlx5_0"}, func(h *Host) { h.Ask = a.ask }, nil)
	require.NoError(t, err)
	require.NotNil(t, r.Flap)
	require.Equal(t, flapWindow.Nanoseconds(), r.Flap.WindowNS)
	var seen []string
	for _, s := range r.Flap.Seen {
		seen = append(seen, s.Event+s.State)
	}
	require.Equal(t, []string{"active", "port_err", "port_active"}, seen)
	require.Equal(t, []LinkCount{{Port: 1}}, r.Flap.Links)
	require.GreaterOrEqual(t, r.TookNS, flapWindow.Nanoseconds())
	require.Contains(t, r.Events, Event{Port: 1, Type: "port_err", Count: 2, HoldMaxNS: 9})
}

func TestOtherUsersAreARefusal(t *testing.T) {
	for _, c := range []struct {
		name  string
		owner nldev.Owner
		err   error
		says  string // "": it is run
	}{
		{"a program", nldev.Owner{PID: 4711, Objects: 3}, nil, "it is in use: perftest (process 4700)"},
		{"a program without objects", nldev.Owner{PID: 4711}, nil, "perftest"},
		{"a program that is hidden", nldev.Owner{PID: 9}, nil, "cannot be seen"},
		{"a program of another namespace", nldev.Owner{}, nil, "cannot be seen"},
		{"storage", nldev.Owner{Kernel: "nvme_rdma", Objects: 1}, nil, "the kernel's nvme_rdma"},
		{"storage that waits for use", nldev.Owner{Kernel: "ib_srp"}, nil, ""},
		{"IP over InfiniBand", nldev.Owner{Kernel: "ib_ipoib", Objects: 9}, nil, ""},
		{"this plugin", nldev.Owner{PID: 4712, Objects: 9}, nil, ""},
		{"unknown users", nldev.Owner{}, unix.EPROTONOSUPPORT, "is unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			who := func(h *Host) {
				h.Use = func(string) (nldev.Use, error) {
					return nldev.Use{QueuePairs: 5, Owners: []nldev.Owner{{Kernel: "ib_core", Objects: 2}, c.owner}}, c.err
				}
				h.Program = func(pid int) (string, int) {
					return map[int]string{4711: "perftest", 4712: "rdma-events-worker"}[pid], pid / 100 * 100
				}
			}
			w := mlx5Worker()
			r, err := runTrial(t, w, Options{Device: "mlx5_0"}, who, nil)
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
				require.ErrorContains(t, err, "-yes")
				require.Equal(t, c.err == nil, errors.Is(err, ErrInUse))
				require.Nil(t, r)
				require.Empty(t, w.asked, "the device was opened")
				_, err = runTrial(t, w, Options{Device: "mlx5_0", Yes: true}, who, nil)
			}
			require.NoError(t, err)
		})
	}
}

func TestFileHasNoIdentity(t *testing.T) {
	const named = "rocex525400123456"
	w := mlx5Worker()
	w.attr.Name, w.attr.NodeGUID, w.attr.SysImageGUID, w.attr.PCIAddress = named, "5254:00ff:fe12:3456", "5254:00ff:fe12:3457", "0000:3b:00.0"
	w.port.NetDev, w.port.LID, w.port.SMLID = "enx525400123456", 4242, 4243
	w.round = nil
	more := map[string]string{}
	for name, text := range map[string]string{"node_type": "1: CA", "ports/1/gids/0": "fe80:0000:0000:0000:5054:00ff:fe12:3456", "ports/1/state": "4: ACTIVE"} {
		more["class/infiniband/"+named+"/"+name] = text
	}
	r, err := runTrial(t, w, Options{Device: named, Yes: true}, func(h *Host) {
		h.Use = func(string) (nldev.Use, error) { return nldev.Use{Owners: []nldev.Owner{{PID: 7}}}, nil }
		h.Program = func(int) (string, int) { return "secret-program", 7 }
	}, more)
	require.NoError(t, err)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.Equal(t, "rocexx", r.Device.Name)
	require.True(t, r.Device.Ports[0].HasLID)
	for _, secret := range []string{"525400123456", "3456", "3b:00", "4242", "4243", "secret-program", "5054"} {
		require.NotContains(t, string(text), secret)
	}
}

func TestRefusedMethodSaysWhy(t *testing.T) {
	w := mlx5Worker()
	w.round = nil
	r, err := runTrial(t, w, Options{Device: "mlx5_0", Yes: true}, nil, nil)
	require.NoError(t, err)
	for _, m := range r.Methods {
		require.True(t, m.Tried)
		require.Zero(t, m.Rounds)
		require.Equal(t, "the port cannot", m.Why)
	}
}

func TestNoDefaultGIDMeansNoConnectedQueuePair(t *testing.T) {
	r, err := runTrial(t, mlx5Worker(), Options{Device: "mlx5_0", Yes: true}, nil, map[string]string{class + "ports/1/gids/0": ""})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"ud_send": true, "flush": true}, triedMethods(r))
	require.Contains(t, r.Methods[1].Why, "no default GID")
	require.False(t, r.Auto[0].Tried)
	require.Equal(t, -1, r.Device.Ports[0].DefaultGID)
}

func TestRoundsAreSummedByOutcomeAndStage(t *testing.T) {
	w, n := mlx5Worker(), int64(0)
	w.round = func(string) verbs.Round {
		if n++; n%5 == 0 {
			return verbs.Round{Outcome: verbs.OutcomeLostEvent, Status: "lost_event"}
		}
		return verbs.Round{Wake: n * 1000}
	}
	r, err := runTrial(t, w, Options{Device: "mlx5_0"}, nil, nil)
	require.NoError(t, err)
	m := r.Methods[0]
	require.Equal(t, probeRounds, m.Rounds)
	require.Equal(t, map[string]int{"success": 40, "lost_event": 10}, m.Outcomes)
	require.Equal(t, map[string]int{"lost_event": 10}, m.Statuses)
	require.Equal(t, Times{Count: 40, MinNS: 1000, MedianNS: 26000, MaxNS: 49000}, m.Stages["wake"])
}

func TestCallsAreTimedAndCounted(t *testing.T) {
	r, err := runTrial(t, mlx5Worker(), Options{Device: "mlx5_0"}, nil, nil)
	require.NoError(t, err)
	calls := map[string]Timed{}
	for _, c := range r.Commands {
		calls[c.Call] = c
		require.Equal(t, timedCalls, c.Count, c.Call)
	}
	require.Equal(t, Times{Count: timedCalls, MinNS: 1, MedianNS: timedCalls/2 + 1, MaxNS: timedCalls}, calls["ibv_query_port"].Times)
	// The numbers are those of the table of drivers for Ethernet.
	for call, commands := range map[string]int{"ibv_query_port": 3, "state": 2, "link_downed": 1, "pkey": 1, "hw_counter": 4} {
		require.Equal(t, commands, calls[call].Commands, call)
	}
}

func TestCountersAreThoseWithoutTraffic(t *testing.T) {
	r, err := runTrial(t, mlx5Worker(), Options{Device: "mlx5_0"}, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []Counter{
		{Name: "hw_counters/req_cqe_flush_error_none"},
		{Name: "ports/1/hw_counters/odp", Error: "not a number"},
		{Name: "ports/1/hw_counters/out_of_sequence", Before: 7, After: 7},
		{Name: "ports/1/counters/link_downed", Before: 3, After: 3},
	}, r.Counters)
}

func TestDeviceThatIsNotOpenedIsAFileToo(t *testing.T) {
	w := mlx5Worker()
	w.why = "a verbs call hangs"
	r, err := runTrial(t, w, Options{Device: "mlx5_0", Yes: true}, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"the device was not opened: a verbs call hangs"}, r.Problems)
	require.Empty(t, r.Methods)
}

func TestWorkerStuckInTheKernelIsTheLast(t *testing.T) {
	w := mlx5Worker()
	w.stuck = true
	a := &answers{yes: []bool{true}}
	r, err := runTrial(t, w, Options{Device: "mlx5_0", Yes: true}, func(h *Host) { h.Ask = a.ask }, nil)
	require.NoError(t, err)
	require.Len(t, w.asked, 2, "the port queries, and the first method")
	require.Equal(t, "a verbs call hangs", r.Methods[0].Why)
	require.Equal(t, "a worker hangs in the kernel", r.Methods[1].Why)
	require.False(t, r.Auto[0].Tried)
	require.Nil(t, r.Flap)
}

// hangingFS blocks in Open of one file until gate is closed.
type hangingFS struct {
	fs.FS
	file string
	gate chan struct{}
}

func (h hangingFS) Open(name string) (fs.File, error) {
	if name == h.file {
		<-h.gate
	}
	return h.FS.Open(name)
}

func TestHungReadingEndsTheReadings(t *testing.T) {
	sys := writeSysfs(t, nil)
	synctest.Test(t, func(t *testing.T) {
		h := hostOf(t, mlx5Worker(), sys)
		gate := make(chan struct{})
		h.Sys = hangingFS{h.Sys, class + "ports/1/hw_counters/out_of_sequence", gate}
		r, err := Run(t.Context(), h, Options{Device: "mlx5_0", Yes: true})
		close(gate)
		require.NoError(t, err)
		require.LessOrEqual(t, r.TookNS, RunTimeout.Nanoseconds())
		require.Equal(t, map[string]bool{"ud_send": true, "rc_write": true, "flush": true}, triedMethods(r), "probes go on")
		errs := map[string]string{}
		for _, c := range r.Counters {
			errs[c.Name] = c.Error
		}
		require.Equal(t, map[string]string{
			"hw_counters/req_cqe_flush_error_none": errNotRead.Error(), // the second time
			"ports/1/hw_counters/odp":              "not a number",
			"ports/1/hw_counters/out_of_sequence":  errHung.Error(),
			"ports/1/counters/link_downed":         errNotRead.Error(),
		}, errs)
		for _, c := range r.Commands {
			require.Equal(t, "ibv_query_port", c.Call, "no other file was read")
		}
	})
}

func TestRunIsOverAfterTwoMinutes(t *testing.T) {
	w := mlx5Worker()
	w.attr.Ports = 16
	w.round = func(string) verbs.Round { time.Sleep(time.Second); return verbs.Round{} }
	r, err := runTrial(t, w, Options{Device: "mlx5_0", Yes: true}, nil, nil)
	require.NoError(t, err)
	t.Log(time.Duration(r.TookNS))
	// The limit does not interrupt the fake's last batch.
	require.LessOrEqual(t, r.TookNS, (RunTimeout + time.Minute).Nanoseconds())
	require.Equal(t, []string{"the two minutes were over before all was tried"}, r.Problems)
	require.Equal(t, "the two minutes were over", r.Methods[len(r.Methods)-1].Why)
}

func TestInterruptedRunHasNoFile(t *testing.T) {
	sys := writeSysfs(t, nil)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := Run(ctx, hostOf(t, mlx5Worker(), sys), Options{Device: "mlx5_0"})
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestLabelHasNoGUID(t *testing.T) {
	require.Equal(t, "mlx5_0", Label("mlx5_0"))
	require.Equal(t, "rocep59s0f0np0", Label("rocep59s0f0np0"))
	require.Equal(t, "ibxx", Label("ibx506b4b0300c2f5b4"))
}
