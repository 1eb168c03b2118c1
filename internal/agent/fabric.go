package agent

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"rdma_events/internal/device/monitor"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/pairs"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/telemetry/measure"
)

// probing is what probes other hosts, and answers them.
type probing struct {
	keeper   *pairs.Keeper
	server   *exchange.Server // nil: no host is answered
	listener net.Listener     // nil likewise
	list     *listFile
	log      *slog.Logger

	mu     sync.Mutex
	orders map[string]*worker.Orders // by device
}

// openProbing opens what the probes between hosts need, nil without fabric.peers_file. The errors are one line.
func (c *Config) openProbing(r verbs.Request, emit func(measure.Point), log *slog.Logger) (*probing, error) {
	f := &c.Fabric
	if !f.On() {
		return nil, nil
	}
	host, err := f.HostName()
	if err != nil {
		return nil, err
	}
	p := &probing{log: log, orders: map[string]*worker.Orders{}, list: f.list(host, log)}
	list, err := p.list.open()
	if err != nil {
		return nil, err
	}
	credentials, err := c.readCredentials(host, log)
	if err != nil {
		return nil, err
	}
	network, err := c.newNetwork(r, host, credentials)
	if err != nil {
		return nil, err
	}
	p.keeper = pairs.New(pairs.Config{
		Host: host, Peers: f.Peers, Probe: f.Probe, Interval: time.Duration(f.Interval), Window: time.Duration(c.Probe.Window), Network: network,
		Orders: p.ordersOf, Mono: clock.Monotonic, Random: random, Announce: p.announce, Emit: emit, Log: log,
	}, list)
	if credentials == nil || f.Listen == "" {
		return p, nil
	}
	p.server = exchange.NewServer(exchange.ServerConfig{Host: host, Credentials: credentials, Handler: p.keeper, Now: time.Now})
	if p.listener, err = exchange.Listen(context.Background(), f.Listen); err != nil {
		return nil, fmt.Errorf("%s: fabric.%w", table, err)
	}
	return p, nil
}

// readCredentials reads what proves who this host is; nil for simulated peers, which do not ask.
func (c *Config) readCredentials(host string, log *slog.Logger) (*exchange.Credentials, error) {
	f := &c.Fabric
	if c.Simulated() {
		return nil, nil
	}
	credentials, err := exchange.NewCredentials(host, exchange.Files{Key: f.KeyFile, TLSCert: f.TLSCert, TLSKey: f.TLSKey, TLSCA: f.TLSCA}, time.Now, log)
	if err != nil {
		return nil, fmt.Errorf("%s: fabric.%w", table, err)
	}
	return credentials, nil
}

// newNetwork makes what reaches the other hosts.
func (c *Config) newNetwork(r verbs.Request, host string, credentials *exchange.Credentials) (exchange.Network, error) {
	row, ok := findBackend(c.Backend)
	if ok && row.Network != nil {
		network, err := row.Network(r)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", table, c.Backend, err)
		}
		return network, nil
	}
	return exchange.New(exchange.NetworkConfig{Host: host, Credentials: credentials, Port: c.Fabric.port()}), nil
}

// port returns where other hosts listen: all hosts have the same configuration.
func (c *FabricConfig) port() int {
	if c.peersPort != 0 {
		return c.peersPort
	}
	listen := c.Listen
	if listen == "" {
		listen = DefaultConfig().Fabric.Listen
	}
	_, text, _ := net.SplitHostPort(listen) // Check has refused what is no address
	port, _ := strconv.Atoi(text)
	return port
}

// random returns bits that no other process can guess.
func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never returns an error
	return binary.NativeEndian.Uint64(b[:])
}

// of returns the orders for the worker of a device.
func (p *probing) of(device string) *worker.Orders {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.orders[device] == nil {
		p.orders[device] = worker.NewOrders()
	}
	return p.orders[device]
}

// ordersOf returns the orders for a device as the keeper gives them. The functions on the way of an order to the device's worker
// and to C are listed in docs/explanation/architecture.md, "Path of an order".
func (p *probing) ordersOf(device string) pairs.Orders { return post{p.of(device)} }

// post gives orders as the keeper wants them: without a worker there is no Fabric.
type post struct{ *worker.Orders }

// Order implements pairs.Orders.
func (p post) Order(ctx context.Context, o verbs.FabricOrder) (rc uint32, err error) {
	rc, err = p.Orders.Order(ctx, o)
	if errors.Is(err, worker.ErrNoWorker) {
		return 0, fmt.Errorf("%w: %w", verbs.ErrNoFabric, err)
	}
	return rc, err
}

func (p *probing) announce(c exchange.Change) {
	if p.server != nil {
		p.server.AnnounceChange(c)
	}
}

// run probes and answers until ctx is done.
func (p *probing) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { p.keeper.Run(ctx) })
	wg.Go(func() { p.list.watch(ctx, p.relist) })
	if p.server == nil {
		return
	}
	if err := p.server.Serve(ctx, p.listener); err != nil {
		p.log.Error("other hosts are not answered any more: " + err.Error())
	}
}

// relist takes another list. Hosts that it does not have are strangers from now on.
func (p *probing) relist(l *pinglist.List) {
	p.keeper.SetList(l)
	if p.server != nil {
		p.server.EndUnlisted()
	}
}

// close releases what run would have released.
func (p *probing) close() error {
	if p == nil || p.listener == nil {
		return nil
	}
	if err := p.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the socket for other hosts: %w", err)
	}
	return nil
}

// checkProbing checks the files of the fabric's options. The error is one line.
func (c *Config) checkProbing() error {
	f := &c.Fabric
	if !f.On() {
		return nil
	}
	host, err := f.HostName()
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	if _, err := f.list(host, log).read(); err != nil {
		return err
	}
	_, err = c.readCredentials(host, log)
	return err
}

// update passes what the monitor tells about a device on to the pairs.
func (p *probing) update(u monitor.Update) {
	switch {
	case u.Item != nil && u.Item.FabricPort != nil:
		p.keeper.HandlePort(u.Device, u.Item.FabricPort, u.Offset)
	case u.Item != nil && u.Item.FabricFacts != nil:
		p.keeper.HandleFacts(u.Device, u.Item.FabricFacts, u.Offset)
	case u.Port != nil:
		p.updatePort(u.Port, u.Offset)
	case u.Ledger != nil:
		p.keeper.HandleLedger(u.Device, u.Ledger.Fabrics, u.Ended)
	case u.Gone:
		p.keeper.HandleDeviceGone(u.Device)
	}
}

func (p *probing) updatePort(port *measure.Port, offset int64) {
	if port.HasState {
		p.keeper.HandlePortState(port.Device, port.Port, port.State, offset)
	}
	role := ""
	if port.Role == verbs.RoleManagement {
		role = port.Role
	}
	p.keeper.SetPortRole(port.Device, port.Port, role)
}
