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

// fabricService probes other hosts and answers their requests.
type fabricService struct {
	keeper   *pairs.Keeper
	server   *exchange.Server // nil: this host does not listen
	listener net.Listener     // nil if server is nil
	list     *listFile
	log      *slog.Logger

	mu     sync.Mutex
	orders map[string]*worker.Orders // by device
}

// openFabricService acquires the resources of the probes between hosts. It returns nil without fabric.peers_file.
// Errors are one line.
func (c *Config) openFabricService(r verbs.Request, emit func(measure.Point), log *slog.Logger) (*fabricService, error) {
	f := &c.Fabric
	if !f.Enabled() {
		return nil, nil
	}
	host, err := f.HostName()
	if err != nil {
		return nil, err
	}
	p := &fabricService{log: log, orders: map[string]*worker.Orders{}, list: f.newListFile(host, log)}
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
		Orders: p.pairOrders, Mono: clock.Monotonic, Random: randomBits, Announce: p.announceChange, Emit: emit, Log: log,
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

// readCredentials reads the key or the certificate of this host. It returns nil for simulated peers, which need none.
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

// newNetwork returns the network that connects to other hosts: a simulated one if the backend has one, else TCP.
func (c *Config) newNetwork(r verbs.Request, host string, credentials *exchange.Credentials) (exchange.Network, error) {
	row, ok := findBackend(c.Backend)
	if ok && row.NewNetwork != nil {
		network, err := row.NewNetwork(r)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", table, c.Backend, err)
		}
		return network, nil
	}
	return exchange.New(exchange.NetworkConfig{Host: host, Credentials: credentials, Port: c.Fabric.peerListenPort()}), nil
}

// peerListenPort returns the TCP port of other hosts. It is the port of fabric.listen, because all hosts have the same
// configuration.
func (c *FabricConfig) peerListenPort() int {
	if c.peersPort != 0 {
		return c.peersPort
	}
	listen := c.Listen
	if listen == "" {
		listen = DefaultConfig().Fabric.Listen
	}
	_, text, _ := net.SplitHostPort(listen) // Validate has rejected invalid addresses
	port, _ := strconv.Atoi(text)
	return port
}

// randomBits returns 64 bits that no other process can guess.
func randomBits() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // rand.Read never returns an error
	return binary.NativeEndian.Uint64(b[:])
}

// workerOrders returns the channel of orders to the worker of a device. The receiver may be nil.
func (p *fabricService) workerOrders(device string) *worker.Orders {
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

// pairOrders returns the orders of a device as the keeper of the pairs gives them. docs/explanation/architecture.md
// lists the functions from here to the worker and its C code, in "Path of an order".
func (p *fabricService) pairOrders(device string) pairs.Orders {
	return keeperOrders{p.workerOrders(device)}
}

// keeperOrders implements pairs.Orders. It reports a missing worker as a missing Fabric.
type keeperOrders struct{ *worker.Orders }

// Order implements pairs.Orders.
func (p keeperOrders) Order(ctx context.Context, o verbs.FabricOrder) (rc uint32, err error) {
	rc, err = p.Orders.Order(ctx, o)
	if errors.Is(err, worker.ErrNoWorker) {
		return 0, fmt.Errorf("%w: %w", verbs.ErrNoFabric, err)
	}
	return rc, err
}

// announceChange tells connected hosts that a local Fabric has changed.
func (p *fabricService) announceChange(c exchange.Change) {
	if p.server != nil {
		p.server.AnnounceChange(c)
	}
}

// run probes other hosts and answers their requests until ctx is done.
func (p *fabricService) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { p.keeper.Run(ctx) })
	wg.Go(func() { p.list.watch(ctx, p.replaceList) })
	if p.server == nil {
		return
	}
	if err := p.server.Serve(ctx, p.listener); err != nil {
		p.log.Error("peer server stopped", "error", err)
	}
}

// replaceList applies a new list. Hosts that are not in it are refused from now on.
func (p *fabricService) replaceList(l *pinglist.List) {
	p.keeper.SetList(l)
	if p.server != nil {
		p.server.EndUnlisted()
	}
}

// close releases the socket if run has not been called.
func (p *fabricService) close() error {
	if p == nil || p.listener == nil {
		return nil
	}
	if err := p.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the socket for other hosts: %w", err)
	}
	return nil
}

// checkFabricFiles checks the files that the section fabric names. The error is one line.
func (c *Config) checkFabricFiles() error {
	f := &c.Fabric
	if !f.Enabled() {
		return nil
	}
	host, err := f.HostName()
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	if _, err := f.newListFile(host, log).read(); err != nil {
		return err
	}
	_, err = c.readCredentials(host, log)
	return err
}

// handleUpdate passes the updates of the monitor about a device to the keeper of the pairs.
func (p *fabricService) handleUpdate(u monitor.Update) {
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

func (p *fabricService) updatePort(port *measure.Port, offset int64) {
	if port.HasState {
		p.keeper.HandlePortState(port.Device, port.Port, port.State, offset)
	}
	role := ""
	if port.Role == verbs.RoleManagement {
		role = port.Role
	}
	p.keeper.SetPortRole(port.Device, port.Port, role)
}
