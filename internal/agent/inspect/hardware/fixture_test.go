package hardware

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/nldev"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
)

// fakeWorker answers every watch with items, and then waits until ctx ends.
type fakeWorker struct {
	attr  verbs.DeviceAttr
	port  verbs.PortAttr
	round func(m string) verbs.Round // returns a round of a method; nil: the worker refuses every method
	why   string                     // why the worker exits; "": it runs until ctx ends
	stuck bool                       // a watch with probes hangs in the kernel
	asked []verbs.Options
	more  []verbs.Item // further items of a watch without probes
}

func (w *fakeWorker) AskLibrary(context.Context) (string, error) {
	return "/usr/lib/libibverbs.so.1", nil
}

func (w *fakeWorker) Watch(ctx context.Context, o verbs.Options, h worker.Handler) error {
	w.asked = append(w.asked, o)
	h.Started(nil, nil)
	if o.Probe.Interval > 0 && w.stuck {
		h.Ended(status.End{Reason: status.ReasonStuck, Message: "a verbs call hangs"})
		return process.ErrAbandoned
	}
	if w.why != "" {
		h.Ended(status.End{Reason: status.ReasonStuck, Message: w.why})
		return nil
	}
	attr := w.attr
	items := []verbs.Item{{Opened: &attr}}
	for n := 1; n <= attr.Ports; n++ {
		for i := range timedCalls {
			items = append(items, verbs.Item{Reading: &verbs.Reading{Port: n, Attr: w.port, Took: int64(i + 1)}})
		}
	}
	if o.Probe.Interval == 0 {
		items = append(items, w.more...)
	}
	h.Batch(verbs.Batch{Items: append(items, w.probing(o)...)}, status.Status{})
	<-ctx.Done()
	h.Ended(status.End{Reason: status.ReasonOK})
	return nil
}

func (w *fakeWorker) probing(o verbs.Options) []verbs.Item {
	if o.Probe.Interval == 0 {
		return nil
	}
	m := o.Probe.Method
	if m == verbs.MethodAuto {
		m = verbs.MethodRCWrite
	}
	if w.round == nil {
		return []verbs.Item{{Probe: &verbs.ProbeItem{ProbeKey: verbs.ProbeKey{Port: o.Ports[0], Method: verbs.MethodNone}, Reason: "the port cannot"}}}
	}
	items := []verbs.Item{{Probe: &verbs.ProbeItem{ProbeKey: verbs.ProbeKey{Port: o.Ports[0], Method: m}, Reason: "as preferred"}}}
	for range probeRounds + 2 {
		items = append(items, verbs.Item{Round: &verbs.RoundItem{ProbeKey: verbs.ProbeKey{Port: o.Ports[0], Method: m}, Round: w.round(o.Probe.Method.String())}})
	}
	return items
}

func goodRound(string) verbs.Round { return verbs.Round{Wake: 5000, Get: 10, Total: 6000} }

// mlx5Worker returns a worker of a RoCE device with one port, on which everything works.
func mlx5Worker() *fakeWorker {
	return &fakeWorker{
		attr:  verbs.DeviceAttr{Name: "mlx5_0", Ports: 1, Vectors: 8, EventsSupported: true, Driver: "mlx5_core", Transport: "infiniband"},
		port:  verbs.PortAttr{State: verbs.PortActive, LinkLayer: verbs.LinkEthernet, HasLinkDowned: true},
		round: goodRound,
	}
}

const class = "class/infiniband/mlx5_0/"

// writeSysfs creates a sysfs and returns its path. An empty text in more removes a file that exists by default.
func writeSysfs(t *testing.T, more map[string]string) string {
	t.Helper()
	all := map[string]string{
		"class/infiniband_verbs/abi_version":           "6",
		class + "node_type":                            "1: CA",
		class + "node_guid":                            "5254:00ff:fe12:3456",
		class + "hca_type":                             "MT4125",
		class + "ports/1/state":                        "4: ACTIVE",
		class + "ports/1/gids/0":                       "fe80:0000:0000:0000:5054:00ff:fe12:3456",
		class + "ports/1/gids/1":                       "0000:0000:0000:0000:0000:ffff:0a00:0001",
		class + "ports/1/gids/2":                       "0000:0000:0000:0000:0000:0000:0000:0000",
		class + "ports/1/gid_attrs/types/0":            "RoCE v2",
		class + "ports/1/gid_attrs/types/1":            "RoCE v2",
		class + "ports/1/pkeys/0":                      "0xffff",
		class + "ports/1/counters/link_downed":         "3",
		class + "ports/1/counters/port_rcv_data":       "12345",
		class + "ports/1/hw_counters/lifespan":         "10",
		class + "ports/1/hw_counters/out_of_sequence":  "7",
		class + "ports/1/hw_counters/odp":              "no number",
		class + "hw_counters/req_cqe_flush_error_none": "0",
	}
	for name, text := range more {
		all[name] = text
	}
	root := t.TempDir()
	for name, text := range all {
		if text == "" {
			continue
		}
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o644))
	}
	return root
}

// hostOf returns a host with one device and without an operator.
func hostOf(t *testing.T, w Worker, sys string) *Host {
	t.Helper()
	begin := time.Now()
	return &Host{
		Version: "1.2.3", Kernel: "6.1.0", Sys: os.DirFS(sys), Sysfs: sysfs.New(sys), Worker: w,
		Libraries: func(string, string) inspect.Libraries {
			return inspect.Libraries{Verbs: "44.0", Provider: "mlx5 44.0", ABI: "34"}
		},
		Use: func(string) (nldev.Use, error) {
			return nldev.Use{QueuePairs: 1, Owners: []nldev.Owner{{Kernel: "ib_core", Domains: 1, Objects: 2}}}, nil
		},
		Program: func(int) (string, int) { return "", 0 },
		Say:     t.Logf,
		Mono:    func() int64 { return time.Since(begin).Nanoseconds() },
		Now:     time.Now,
	}
}

// answers answers questions in order, and records them.
type answers struct {
	yes   []bool
	asked []string
}

func (a *answers) ask(question string) bool {
	a.asked = append(a.asked, question)
	return a.yes[len(a.asked)-1]
}
