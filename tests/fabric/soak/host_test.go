package soak

import (
	"context"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/pairs"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/telemetry/measure"
)

// host is a host with its devices, over all restarts of its processes.
type host struct {
	w       *world
	number  int
	name    string
	devices []string
	former  bool // it runs the release before sessions were reconciled
	files   exchange.Files
	base    time.Duration // of CLOCK_MONOTONIC when the world began
	step    atomic.Int64  // of the wall clock, ns
	turn    chan struct{} // held by the fault that starts or ends a process or a worker

	mu      sync.Mutex
	list    *pinglist.List
	lacks   map[string]int // hosts that faults have taken out of the list
	present bool           // the host has been added
	process process        // nil: none runs
}

// process is the program that runs on a host.
type process interface {
	// open makes a worker for a device.
	open(device string)
	// lose ends the worker of a device without a word. unplugged: the device is gone, too.
	lose(device string, unplugged bool)
	setList(l *pinglist.List)
	// end ends the process. It leaves its peers in order, or is killed and must not be heard any more.
	end(killed bool)
}

func newHost(w *world, number int, s hostPlan, dir string) *host {
	h := &host{
		w: w, number: number, name: hostName(number), devices: s.devices, former: s.former, base: w.chance(1000 * time.Hour),
		turn: make(chan struct{}, 1), lacks: map[string]int{},
	}
	at := func(what string) string { return filepath.Join(dir, h.name+"."+what) }
	h.files = exchange.Files{Key: at("secret")}
	if w.authority != nil {
		h.files = exchange.Files{TLSCert: at("cert"), TLSKey: at("key"), TLSCA: at("ca")}
	}
	h.writeKeys()
	return h
}

// mono is CLOCK_MONOTONIC of the host, and wall its wall clock, which a fault may step.
func (h *host) mono() int64 { return int64(time.Since(h.w.began) + h.base) }

func (h *host) wall() time.Time { return time.Now().Round(0).Add(time.Duration(h.step.Load())) }

func (h *host) offset() int64 { return h.wall().UnixNano() - h.mono() }

// alone runs a fault of the host's processes after those that are under way.
func (h *host) alone(fault func()) {
	h.turn <- struct{}{}
	fault()
	<-h.turn
}

func (h *host) running() process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.process
}

func (h *host) setRunning(p process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.process = p
}

// start starts the process. Its devices are ready one after the other.
func (h *host) start() {
	h.w.tcp.power(h.name, true)
	var p process
	if h.former {
		p = startFormer(h)
	} else {
		p = startModern(h)
	}
	h.setRunning(p)
	h.w.setUp(h.name, true)
	for i := range h.devices {
		time.Sleep(h.w.chance(1500 * time.Millisecond))
		p.open(h.devices[(i+h.number)%len(h.devices)])
	}
}

// ending is how a process ends.
type ending string

const (
	stopped  ending = "stopped"
	killed   ending = "killed"
	poweroff ending = "switched off" // with its host
)

// end ends the process.
func (h *host) end(how ending) {
	p := h.running()
	if p == nil {
		return
	}
	h.w.setUp(h.name, false)
	switch how {
	case killed:
		h.w.tcp.closeAll(h.name)
	case poweroff:
		h.w.tcp.power(h.name, false)
	case stopped:
	}
	p.end(how != stopped)
	h.w.tcp.closeAll(h.name)
	h.setRunning(nil)
}

// setList gives the host another list.
func (h *host) setList(l *pinglist.List) {
	h.mu.Lock()
	h.list = l
	p := h.process
	h.mu.Unlock()
	h.w.setList(h.name, l)
	if p != nil {
		p.setList(l)
	}
}

func (h *host) ownList() *pinglist.List {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.list
}

// workers are the workers of a process.
type workers struct {
	h       *host
	running sync.WaitGroup

	mu       sync.Mutex
	byDevice map[string]*runningWorker
}

type runningWorker struct {
	*worker
	stop context.CancelFunc
}

// open starts the worker of a device, which reports to a function.
func (ws *workers) open(ctx context.Context, device string, report func(*verbs.FabricFacts)) verbs.FabricPort {
	h := ws.h
	rail := device[len(device)-1] - '0'
	port := verbs.FabricPort{
		Port: 1, Epoch: h.w.uint64() | 1, LinkLayer: verbs.LinkEthernet, MTU: 4096, PKey: 0xffff, UD: []uint32{0x111, 0x112, 0x113, 0x114},
		QKey: uint32(h.w.uint64()) >> 1,
		GIDs: []verbs.FabricGID{{Index: 3, Raw: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: rail, 15: byte(h.number + 1)}}},
	}
	x := &worker{w: h.w, host: h, device: device, port: port, rc: uint32(h.w.uint64()) & 0xffff, wake: make(chan struct{}, 1)}
	h.w.mu.Lock()
	h.w.devices[x] = struct{}{}
	h.w.mu.Unlock()
	ctx, stop := context.WithCancel(ctx)
	ws.mu.Lock()
	ws.byDevice[device] = &runningWorker{x, stop}
	ws.mu.Unlock()
	ws.running.Go(func() { x.run(ctx, report) })
	return port
}

// take removes the worker of a device, nil if there is none.
func (ws *workers) take(device string) *runningWorker {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	x := ws.byDevice[device]
	delete(ws.byDevice, device)
	return x
}

// all returns the workers that run.
func (ws *workers) all() []*runningWorker {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.Collect(maps.Values(ws.byDevice))
}

// endAll ends all workers.
func (ws *workers) endAll() {
	for _, device := range ws.h.devices {
		if x := ws.take(device); x != nil {
			x.end()
			x.stop()
		}
	}
	ws.running.Wait()
}

// order hands an order to the worker of a device.
func (ws *workers) order(ctx context.Context, device string, o verbs.FabricOrder) (uint32, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(time.Millisecond + ws.h.w.chance(10*time.Millisecond)): // the device makes a queue pair, or connects it
	}
	ws.mu.Lock()
	x := ws.byDevice[device]
	ws.mu.Unlock()
	if x == nil {
		return 0, verbs.ErrNoFabric
	}
	return x.order(o)
}

// modern is a process of this release.
type modern struct {
	h       *host
	k       *pairs.Keeper
	server  *exchange.Server
	ctx     context.Context //nolint:containedctx // of the process
	stop    context.CancelFunc
	running sync.WaitGroup
	unheard atomic.Bool
	workers
}

func startModern(h *host) *modern {
	p := &modern{h: h, workers: workers{h: h, byDevice: map[string]*runningWorker{}}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	own, err := exchange.NewCredentials(h.name, h.files, h.wall, silent)
	require.NoError(h.w.t, err)
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		if p.unheard.Load() {
			return nil, net.ErrClosed
		}
		return h.w.tcp.dial(ctx, h.name, address)
	}
	p.k = pairs.New(pairs.Config{
		Host: h.name, Peers: peers, Probe: true, Interval: interval, Window: time.Minute,
		Network: exchange.New(exchange.NetworkConfig{Host: h.name, Credentials: own, Port: 14791, Dial: dial}),
		Orders:  func(device string) pairs.Orders { return orders{p, device} },
		Mono:    h.mono, Random: h.w.uint64, Log: silent,
		Announce: func(c exchange.Change) { p.server.AnnounceChange(c) },
		Emit: func(point measure.Point) {
			if !p.unheard.Load() {
				h.w.hear(h, point)
			}
		},
	}, h.ownList())
	p.server = exchange.NewServer(exchange.ServerConfig{Host: h.name, Credentials: own, Handler: p.k, Now: time.Now})
	l := h.w.tcp.listen(h.name)
	p.running.Go(func() { p.k.Run(p.ctx) })
	p.running.Go(p.readLedgers)
	p.running.Go(func() {
		if err := p.server.Serve(p.ctx, l); err != nil && !p.unheard.Load() {
			h.w.fault("%s: %v", h.name, err)
		}
	})
	return p
}

// readLedgers gives the keeper the ledgers of the workers every ten seconds, as at an interval of Telegraf.
func (p *modern) readLedgers() {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		for _, x := range p.all() {
			p.k.HandleLedger(x.device, x.ledger(), false)
		}
	}
}

// peers is how many hosts each one probes, at most.
const peers = 8

// orders implements pairs.Orders.
type orders struct {
	p      *modern
	device string
}

// Order implements pairs.Orders.
func (o orders) Order(ctx context.Context, order verbs.FabricOrder) (uint32, error) {
	return o.p.order(ctx, o.device, order)
}

func (p *modern) open(device string) {
	port := p.workers.open(p.ctx, device, func(f *verbs.FabricFacts) { p.k.HandleFacts(device, f, p.h.offset()) })
	p.h.w.setOpen(p.h.name, device, true)
	p.k.HandlePortState(device, 1, verbs.PortActive, p.h.offset())
	p.k.HandlePort(device, &port, p.h.offset())
}

func (p *modern) lose(device string, unplugged bool) {
	x := p.take(device)
	if x == nil {
		return
	}
	p.h.w.setOpen(p.h.name, device, false)
	ledgers := x.end()
	x.stop()
	time.Sleep(p.h.w.chance(50 * time.Millisecond)) // a process learns of its worker's end late
	p.k.HandleLedger(device, ledgers, true)
	if unplugged {
		p.k.HandleDeviceGone(device)
	}
}

func (p *modern) setList(l *pinglist.List) {
	p.k.SetList(l)
	p.server.EndUnlisted()
}

func (p *modern) end(killed bool) {
	if killed {
		p.unheard.Store(true)
	}
	p.endAll(killed)
	p.stop()
	p.running.Wait()
}

// endAll ends the workers, which say so unless they were killed.
func (p *modern) endAll(killed bool) {
	if !killed {
		for _, device := range p.h.devices {
			p.k.HandlePort(device, &verbs.FabricPort{Port: 1, Reason: "the device is being closed"}, p.h.offset())
		}
	}
	p.workers.endAll()
}
