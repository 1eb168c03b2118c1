package days

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rdma_events/internal/agent/health"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/monitor"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/emit"
	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	interval = 10 * time.Second // Telegraf's
	// maxEventPoints is the plugin's default of max_event_points.
	maxEventPoints = 20
	// commandInterval is the plugin's default of evidence.command_interval.
	commandInterval = 10 * time.Second
)

func clockStart() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

// nic is an RDMA device of a host, as the kernel has it.
type nic struct {
	found verbs.Found
	ports []verbs.PortAttr
	// lost is how many probe rounds of port 1 lose their completion, and unheard how many lose its event.
	lost, unheard int
	runs          []verbs.Run // events that no worker has read
	link          verbs.PCILink
	uplink        int           // the port of the cable, in switchdev mode; else 0
	silent        bool          // the firmware answers no command
	refused       status.Reason // why no worker can open the device; "": one can
	unacked       bool          // the provider's library does not return from the acknowledgement of an event of port 2
}

// host is a host with the plugin on it. The test's goroutine does everything but what the monitor does in its own ones.
type host struct {
	t      *testing.T
	epoch  time.Time    // when the test began, by the clock of its bubble (testing/synctest)
	jumped atomic.Int64 // times in which nothing ran
	paused atomic.Int64 // CLOCK_BOOTTIME ahead of CLOCK_MONOTONIC
	memory *memory.Memory

	nics      map[string]*nic
	unplugged map[string]*nic
	functions sync.Map // of verbs.PCIFunction, by address
	released  map[string]bool
	down      map[string]bool // devices whose ports are in expected_down
	every     time.Duration   // Telegraf's interval
	step      time.Duration   // in which workers do what they do in a second
	legs      [2]int          // of the bond bond0: how many it has, and how many are up
	next      int             // index of the next device that the kernel registers

	other  reported
	lines  *history.Recording // what the plugin emits; nil: it is dropped
	plugin *plugin            // nil: it does not run
	seen   []seen
}

// seen is a problem that health has reported.
type seen struct {
	health.Problem
	from, till time.Duration
}

// plugin is one run of the plugin.
type plugin struct {
	host    *host
	monitor *monitor.Monitor
	keeper  *health.Keeper
	status  *health.Status
	emitter *emit.Emitter
	begun   time.Duration // of elapsed
	sets    chan []verbs.Found
	handled chan struct{}
	cancel  context.CancelFunc
	done    chan error
	mu      sync.Mutex
	workers []*worker
}

// worker is a Supervisor and its worker.
type worker struct {
	plugin *plugin
	device string
	handle *monitor.Device
	begun  chan struct{}
	ended  chan struct{}
	ctx    context.Context
	wake   chan struct{}

	status status.Status
	ledger *ledger.Ledger   // nil: no worker runs
	slots  []int            // in the ledger, of the probe of each port
	read   []verbs.PortAttr // what the last reading of each port said
	hung   bool             // in an acknowledgement
	asked  time.Duration    // when it last sent a command
}

func newHost(t *testing.T, names ...string) *host {
	h := &host{
		t: t, epoch: time.Now().Add(-time.Hour), nics: map[string]*nic{},
		unplugged: map[string]*nic{}, step: time.Second, every: interval,
		released: map[string]bool{}, down: map[string]bool{},
	}
	h.memory = memory.New(h.wall)
	for _, name := range names {
		h.plug(name, 2)
	}
	t.Cleanup(func() {
		if h.plugin != nil {
			h.stop()
		}
	})
	return h
}

// elapsed is CLOCK_MONOTONIC.
func (h *host) elapsed() time.Duration { return time.Since(h.epoch) + time.Duration(h.jumped.Load()) }

func (h *host) wall() time.Time {
	return clockStart().Add(h.elapsed() + time.Duration(h.paused.Load()))
}

func (h *host) clocks() (wall, mono, boot int64) {
	return h.wall().UnixNano(), int64(h.elapsed()), int64(h.elapsed() + time.Duration(h.paused.Load()))
}

// plug adds a card with active ports.
func (h *host) plug(name string, ports int) *nic {
	n := &nic{found: h.register(name, h.next)}
	for range ports {
		n.ports = append(n.ports, verbs.PortAttr{
			State: verbs.PortActive, Phys: verbs.PhysLinkUp, LinkLayer: verbs.LinkInfiniBand, RateGbps: 400, Width: "4x", MTU: 4096, LID: 7, SMLID: 1,
		})
	}
	h.nics[name] = n
	h.functions.Store(n.found.PCI, verbs.PCIFunction{Driver: "mlx5_core", Instance: uint64(h.next)})
	return n
}

// register returns how discovery sees a device that the kernel registers now, of the card with a number.
func (h *host) register(name string, card int) verbs.Found {
	h.next++
	hex := "0123456789abcdef"[card%16 : card%16+1]
	return verbs.Found{
		Name: name, Index: h.next, Node: "uverbs" + hex, NodeGUID: "0002:c903:0000:000" + hex, PCI: "0000:" + hex + "b:00.0", Driver: "mlx5_core",
	}
}

// begin starts the plugin.
func (h *host) begin() {
	p := &plugin{
		host: h, keeper: health.NewKeeper("test", "node1"), sets: make(chan []verbs.Found), handled: make(chan struct{}), done: make(chan error, 1),
	}
	h.plugin = p
	h.other.forget()
	p.emitter, p.begun = emit.New(maxEventPoints, h.wall), h.elapsed()
	p.monitor = monitor.New(monitor.Config{
		Discovery: p, NewSupervisor: p.supervisor, Emit: p.emitter.Emit, Now: h.clocks, Memory: h.memory, Window: 5 * time.Minute,
		CommandStuck: 5 * time.Second, Evidence: true,
		ExpectedDown: func(device string, _ int) bool { return h.down[device] },
		Function:     func(address string) verbs.PCIFunction { return h.function(address) },
		PCILink:      h.linkOf,
		Legs:         func(netdev string) (legs, up int, ok bool) { return h.legs[0], h.legs[1], netdev == "bond0" },
		Released:     func(f verbs.Found) bool { return h.released[f.Name] },
	})
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	go func() { p.done <- p.monitor.Run(ctx) }()
	h.discover()
}

// stop ends the plugin.
func (h *host) stop() {
	p := h.plugin
	p.cancel()
	require.NoError(h.t, <-p.done)
	for _, w := range p.workers {
		w.close()
	}
	p.emitter.Close()
	p.drain()
	h.plugin = nil
}

func (h *host) restart(away time.Duration) {
	h.stop()
	time.Sleep(away)
	h.begin()
}

func (h *host) function(address string) verbs.PCIFunction {
	f, ok := h.functions.Load(address)
	if !ok {
		return verbs.PCIFunction{Absent: true}
	}
	return f.(verbs.PCIFunction)
}

func (h *host) linkOf(address string) verbs.PCILink {
	for _, n := range h.nics {
		if n.found.PCI == address {
			return n.link
		}
	}
	return verbs.PCILink{}
}

// drain has the plugin write what it has to emit now.
func (p *plugin) drain() {
	var to emit.Sink = nowhere{}
	if p.host.lines != nil {
		to = emit.Lines(p.host.lines)
	}
	p.emitter.Drain(to)
}

// nowhere is an emit.Sink of points that nobody reads.
type nowhere struct{}

// Write implements emit.Sink.
func (nowhere) Write(context.Context, measure.Point, time.Time) (dropped uint64) { return 0 }

// Run implements verbs.Discovery.
func (p *plugin) Run(ctx context.Context, report func([]verbs.Found)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case set := <-p.sets:
			report(set)
			p.handled <- struct{}{}
		}
	}
}

func (p *plugin) supervisor(device string, d *monitor.Device) monitor.Supervisor {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &worker{plugin: p, device: device, handle: d, begun: make(chan struct{}), ended: make(chan struct{}), wake: make(chan struct{}, 1)}
	w.wake <- struct{}{}
	p.workers = append(p.workers, w)
	return w
}

// Run implements monitor.Supervisor.
func (w *worker) Run(ctx context.Context) error {
	w.ctx = ctx
	close(w.begun)
	<-ctx.Done()
	if w.ledger != nil {
		w.handle.Ended(status.End{Reason: status.ReasonOK})
	}
	w.handle.Status(status.Status{State: status.StateStopped, Reason: status.ReasonOK, Restarts: w.status.Restarts})
	close(w.ended)
	return ctx.Err()
}

// Wake implements monitor.Supervisor.
func (w *worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// discover has discovery report the devices, and the workers act on it.
func (h *host) discover() {
	if h.plugin == nil {
		return
	}
	var set []verbs.Found
	for _, name := range slices.Sorted(maps.Keys(h.nics)) {
		set = append(set, h.nics[name].found)
	}
	h.plugin.sets <- set
	<-h.plugin.handled
	h.settle()
}

// settle waits for the Supervisors that have begun or have to end, and has workers open their devices.
func (h *host) settle() {
	for _, w := range h.plugin.list() {
		<-w.begun
		if w.ctx.Err() != nil {
			<-w.ended
			w.close()
			continue
		}
		select {
		case <-w.wake:
			w.open()
		default:
		}
	}
}

func (p *plugin) list() []*worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.workers)
}

func (w *worker) nic() *nic {
	n := w.plugin.host.nics[w.device]
	if n == nil || !n.found.Usable() || n.found.Netns == verbs.NetnsOther {
		return nil
	}
	return n
}

// open has the worker open its device.
func (w *worker) open() {
	n := w.nic()
	if n == nil || w.ledger != nil {
		return
	}
	if n.refused != "" {
		w.status = status.Status{State: status.StateBackingOff, Reason: n.refused, Restarts: w.status.Restarts}
		w.handle.Status(w.status)
		return
	}
	led, file, err := ledger.New(w.device)
	require.NoError(w.plugin.host.t, err)
	require.NoError(w.plugin.host.t, file.Close())
	w.ledger, w.read, w.hung = led, nil, false
	w.slots = nil
	for i := range n.ports {
		slot, err := led.AddProbe(i+1, 0, int(verbs.MethodUDSend))
		require.NoError(w.plugin.host.t, err)
		w.slots = append(w.slots, slot)
	}
	w.handle.Started(led, func() {})
	w.status = status.Status{State: status.StateRunning, Reason: status.ReasonOK, PID: 42, Restarts: w.status.Restarts}
	w.deliver(verbs.Item{Opened: &verbs.DeviceAttr{
		Name: w.device, Ports: len(n.ports), Vectors: 4, EventsSupported: true, Driver: "mlx5_core", BoardID: "MT_1", PCIAddress: n.found.PCI, Uplink: n.uplink,
	}})
	w.query(n)
}

// lose has the worker end because its device is gone.
func (w *worker) lose() {
	if w.ledger == nil {
		return
	}
	w.handle.Ended(status.End{Reason: status.ReasonRemoved})
	w.status = status.Status{State: status.StateStopped, Reason: status.ReasonRemoved, Restarts: w.status.Restarts + 1}
	w.handle.Status(w.status)
	w.close()
}

func (w *worker) close() {
	if w.ledger != nil {
		require.NoError(w.plugin.host.t, w.ledger.Close())
		w.ledger = nil
	}
}

func (w *worker) deliver(items ...verbs.Item) {
	wall, mono, _ := w.plugin.host.clocks()
	w.handle.Batch(verbs.Batch{Wall: wall, Mono: mono, Items: items}, w.status)
}

// query reports each port, with the event of a port that went down or came up.
func (w *worker) query(n *nic) {
	_, mono, _ := w.plugin.host.clocks()
	for i := range n.ports {
		var items []verbs.Item
		was, is := verbs.PortActive, n.ports[i].State
		if len(w.read) > i {
			was = w.read[i].State
		}
		if len(w.read) > i && (was == verbs.PortActive) != (is == verbs.PortActive) {
			e := verbs.EventPortErr
			if is == verbs.PortActive {
				e = verbs.EventPortActive
			}
			items = append(items, verbs.Item{Run: &verbs.Run{
				Type: e, Port: i + 1, Count: 1, First: mono, Last: mono, HoldSum: 900, HoldMax: 900, AckSum: 90, AckMax: 90,
			}})
		}
		w.deliver(append(items, verbs.Item{Reading: &verbs.Reading{Port: i + 1, Mono: mono, Took: 1000, Attr: n.ports[i]}})...)
	}
	w.read = slices.Clone(n.ports)
}

// second is what a worker does in a second.
func (w *worker) second() {
	n := w.nic()
	if w.ledger == nil || n == nil {
		return
	}
	_, mono, _ := w.plugin.host.clocks()
	for _, r := range n.runs {
		r.Count, r.First, r.Last, r.HoldSum, r.HoldMax, r.AckSum, r.AckMax = 1, mono, mono, 900, 900, 90, 90
		w.deliver(verbs.Item{Run: &r})
	}
	n.runs = nil
	if n.unacked != w.hung {
		w.acknowledge(n.unacked)
	}
	if h := w.plugin.host; h.elapsed()-w.asked >= commandInterval {
		w.asked = h.elapsed()
		c := verbs.Command{Call: verbs.CommandHWCounters, Port: len(n.ports), Mono: mono, Took: 20_000}
		if n.silent {
			c.Status = "ETIMEDOUT"
		}
		w.deliver(verbs.Item{Command: &c})
	}
	w.query(n)
	for i := range n.ports {
		if n.ports[i].State != verbs.PortActive {
			continue
		}
		r := verbs.Round{Outcome: verbs.OutcomeSuccess, Start: mono, Wake: 9000, Get: 500, Total: 10000}
		c := ledger.ProbeCounts{Rounds: 1}
		switch {
		case n.lost > 0 && i == 0:
			n.lost--
			c.LostCompletions++
			r.Outcome = verbs.OutcomeLostCompletion
		case n.unheard > 0 && i == 0:
			n.unheard--
			c.LostEvents++
			r.Outcome = verbs.OutcomeLostEvent
		}
		w.ledger.AddProbeCounts(w.slots[i], c)
		w.deliver(verbs.Item{Round: &verbs.RoundItem{ProbeKey: verbs.ProbeKey{Port: i + 1, Method: verbs.MethodUDSend}, Round: r}})
	}
}

// acknowledge has the worker read an event that it does not acknowledge, or acknowledge it at last.
func (w *worker) acknowledge(hangs bool) {
	w.hung = hangs
	if hangs {
		w.ledger.Count(int32(verbs.EventGIDChange), 2, 1, 0)
		return
	}
	w.ledger.Count(int32(verbs.EventGIDChange), 2, 0, 1)
}

// fail has the worker die, and the next one refused.
func (w *worker) fail(reason status.Reason) {
	w.handle.Ended(status.End{Reason: status.ReasonCrashed})
	w.close()
	w.status = status.Status{State: status.StateBackingOff, Reason: reason, Restarts: w.status.Restarts + 1, Crashes: 1}
	w.handle.Status(w.status)
}

// refuse has no worker open a device for a reason; "" ends that.
func (h *host) refuse(name string, reason status.Reason) {
	h.nics[name].refused = reason
	for _, w := range h.plugin.list() {
		switch {
		case w.device != name || w.ctx.Err() != nil:
		case reason != "":
			w.fail(reason)
		default:
			w.open()
		}
	}
}

// passes lets time pass: each worker does what it does in each second, and each interval is judged.
func (h *host) passes(d time.Duration) {
	for range d / h.step {
		time.Sleep(h.step)
		synctest.Wait() // the monitor's own goroutines have done what was due
		if h.plugin == nil {
			continue
		}
		h.settle()
		for _, w := range h.plugin.list() {
			w.second()
		}
		if h.elapsed()%h.every == 0 {
			h.judge()
		}
		h.plugin.drain()
	}
}

// judge gathers, has health judge the points, and emits them.
func (h *host) judge() {
	i := h.plugin.monitor.Gather(h.wall())
	i.Own.Queue, i.Own.Usage.Uptime = h.plugin.emitter.Queue(), int64(h.elapsed()-h.plugin.begun)
	if i.Host != nil {
		i.Host.Apps = h.other.apps()
	}
	recorder := h.other.recorder
	i.Own.Recorder = &recorder
	points := slices.Concat(i.Points, h.other.points(h.wall()), []measure.Point{i.Own})
	h.plugin.status = h.plugin.keeper.Observe(points, h.wall())
	h.plugin.emitter.EmitInterval(points)
	for _, p := range h.plugin.status.Problems {
		i := slices.IndexFunc(h.seen, func(s seen) bool {
			return s.ID == p.ID && s.Device == p.Device && s.Port == p.Port && h.elapsed()-s.till <= h.every
		})
		if i < 0 {
			h.seen = append(h.seen, seen{Problem: p, from: h.elapsed()})
			i = len(h.seen) - 1
		}
		h.seen[i].till = h.elapsed()
	}
}

// review has the plugin look at what is released.
func (h *host) review() {
	require.NoError(h.t, h.plugin.monitor.Review(h.t.Context()))
	h.settle()
}

// unplug has the kernel remove a device, which its worker sees. It returns the device for register.
func (h *host) unplug(name string) *nic {
	n := h.nics[name]
	h.unplugged[name] = n
	delete(h.nics, name)
	for _, w := range h.plugin.list() {
		if w.device == name {
			w.lose()
		}
	}
	h.discover()
	return n
}

// replug has the kernel register a device again.
func (h *host) replug(name string, n *nic) {
	h.next++
	n.found.Index, n.found.Name = h.next, name
	h.nics[name] = n
	h.discover()
}

// state sets the state of a port.
func (h *host) state(name string, port int, s verbs.PortState) {
	p := &h.nics[name].ports[port-1]
	const polling = 2
	p.State, p.Phys = s, polling
	if s != verbs.PortDown {
		p.Phys = verbs.PhysLinkUp
	}
}

// event has the kernel queue an event of a port, or of the device if the port is 0.
func (h *host) event(name string, port int, e verbs.EventType) {
	n := h.nics[name]
	n.runs = append(n.runs, verbs.Run{Type: e, Port: port})
}

// problems returns what health reports now, as in "critical port-down mlx5_0:1".
func (h *host) problems() []string {
	var all []string
	for _, p := range h.plugin.status.Problems {
		all = append(all, problemName(&p))
	}
	slices.Sort(all)
	return all
}

func problemName(p *health.Problem) string {
	text := string(p.Severity) + " " + p.ID
	if p.Device != "" {
		text += " " + p.Device
	}
	if p.Port > 0 {
		text += ":" + string(rune('0'+p.Port))
	}
	return text
}
