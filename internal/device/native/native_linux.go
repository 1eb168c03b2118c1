//go:build linux && cgo

package native

/*
#cgo CFLAGS: -O2 -std=gnu11 -Wall
#cgo LDFLAGS: -ldl -lpthread
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/nldev"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

// runsPerRead is the largest number of runs that one C call returns.
const runsPerRead = 256

// New returns the backend for libibverbs. The first Open loads the library. sysfs is
// normally at "/sys".
func New(sysfs sysfs.FS) verbs.Backend { return backend{sysfs, "/dev/infiniband"} }

type backend struct {
	sysfs sysfs.FS
	nodes string // directory of the device nodes
}

func (b backend) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	if err := loadLibrary(led); err != nil {
		return nil, verbs.NewOpError("open", name, 0, err)
	}
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	d := &nativeDevice{name: name, led: led, sysfs: b.sysfs, instance: b.sysfs.Instance(name), idle: make(chan struct{})}
	var info C.struct_device_info
	r := C.native_open(cname, (*C.struct_ledger)(led.Base()), C.int(led.DoorbellFD()), portTypes(), &d.c, &info)
	if r.err != 0 {
		return nil, verbs.NewOpError(callName(r.call), name, 0, b.explainOpen(name, led, unix.Errno(r.err)))
	}
	d.callControlSysfs(0, func() {
		d.attr = b.sysfs.Device(name)
		d.attr.CountsFlushes = b.sysfs.CountsFlushes(name)
	})
	d.attr.Name = name
	d.attr.Ports, d.attr.Vectors = int(info.ports), int(info.vectors)
	d.attr.EventsSupported = verbs.DriverRaisesEvents(d.attr.Driver)
	d.attr.AlwaysActive = !verbs.DriverReportsState(d.attr.Driver)
	if fw := C.GoString(&info.firmware[0]); fw != "" {
		d.attr.Firmware = fw
	}
	if d.attr.Ports > 1 {
		d.callControlSysfs(0, func() { d.findUplink(nldev.QueryNetDevs) })
	}
	return d, nil
}

// LoadLibrary loads libibverbs and returns the path of the file that the loader chose. It returns
// ErrNoLibrary if there is none, or if a symbol that the backend needs is missing.
func LoadLibrary() (string, error) {
	led, f, err := ledger.New("library")
	if err != nil {
		return "", err
	}
	defer led.Close()
	defer f.Close()
	if err := loadLibrary(led); err != nil {
		return "", err
	}
	maps, err := os.ReadFile("/proc/self/maps") // proc_pid_maps(5): the path is the last field
	if err != nil {
		return "", fmt.Errorf("find libibverbs among the mapped files: %w", err)
	}
	for line := range strings.Lines(string(maps)) {
		if i := strings.IndexByte(line, '/'); i >= 0 && strings.Contains(line[i:], "/libibverbs.so.") {
			return strings.TrimSpace(line[i:]), nil
		}
	}
	return "", errors.New("find libibverbs among the mapped files: it is not there under this name")
}

func loadLibrary(led *ledger.Ledger) error {
	var why [256]C.char
	if errno := C.native_load((*C.struct_ledger)(led.Base()), &why[0], C.int(len(why))); errno != 0 {
		return fmt.Errorf("%w: %s", verbs.ErrNoLibrary, C.GoString(&why[0]))
	}
	return nil
}

// explainOpen returns why a device could not be opened. If libibverbs cannot open the node, it
// searches for it in other places, and errno comes from that search. explainOpen therefore
// opens the node once more itself. The library also returns ENODEV if it has no provider for
// an existing device, and EPERM if the device is in another network namespace.
func (b backend) explainOpen(name string, led *ledger.Ledger, errno unix.Errno) error {
	node, err := b.sysfs.Node(name)
	switch {
	case verbs.Shortage(err) != "":
		return fmt.Errorf("%w: %w", verbs.ErrLimit, err)
	case err != nil:
		return fmt.Errorf("%w: %w", verbs.ErrNoDevice, errno)
	}
	path := filepath.Join(b.nodes, node)
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		_ = f.Close() // nothing was written
	} else if !errors.As(err, &errno) {
		return err
	}
	switch errno {
	case unix.ENODEV, unix.ENOSYS:
		return b.explainUnlisted(name, led, path)
	case unix.ENOENT:
		return fmt.Errorf("%w: there is no %s; in a container, mount it", verbs.ErrUnsupported, path)
	case unix.EAGAIN:
		// mlx5, mlx4, hns, pvrdma and mthca return EAGAIN for a device in error state.
		// The rdma cgroup returns it as well, at its limit of open devices.
		return fmt.Errorf("%s: %w: %w", path, verbs.ErrRecovering, errno)
	case unix.EIO: // the kernel is removing the device
		return fmt.Errorf("%s: %w: %w", path, verbs.ErrNoDevice, errno)
	case unix.EPERM:
		if b.sysfs.ExclusiveNetns() {
			return fmt.Errorf("%w: %w", verbs.ErrExcludedNetns, errno)
		}
	}
	return fmt.Errorf("%s: %w", path, toVerbsError(errno))
}

// portTypes returns the bit mask of the event types whose element is a port number.
func portTypes() C.uint64_t {
	var mask C.uint64_t
	for _, t := range verbs.EventTypes(verbs.ScopePort) {
		mask |= 1 << uint(t)
	}
	return mask
}

// nativeDevice guards the C device: each call is between enter and leave. Close admits no
// new call and waits for the current ones.
type nativeDevice struct {
	c     *C.struct_device
	name  string
	led   *ledger.Ledger
	sysfs sysfs.FS
	attr  verbs.DeviceAttr

	instance sysfs.Instance  // the registration of the device that was opened
	refusals *verbs.Refusals // nil: reads are not limited

	runs [runsPerRead]C.struct_run // used by ReadEvents, and by Close after the last ReadEvents

	querying sync.Mutex // held while a call uses the ledger's control thread state
	speeds   portSpeeds // guarded by querying

	pkeys pkeyIndexes

	netDevs      sync.Map // by port: name of the network device that a query found last
	uplinkNetDev string

	mu      sync.Mutex
	closed  bool
	inside  int           // number of current calls
	idle    chan struct{} // closed when closed is true and there is no current call
	probes  map[*nativeProbe]struct{}
	fabrics map[*nativeFabric]struct{}
}

func (d *nativeDevice) Attr() verbs.DeviceAttr { return d.attr }

// LimitReads implements verbs.ReadLimiter.
func (d *nativeDevice) LimitReads(r *verbs.Refusals) { d.refusals = r }

func (d *nativeDevice) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return verbs.ErrClosed
	}
	d.inside++
	return nil
}

func (d *nativeDevice) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

func (d *nativeDevice) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	if d.closed && d.inside == 0 {
		close(d.idle)
	}
}

func (d *nativeDevice) QueryPort(port int) (verbs.PortAttr, error) {
	attr, _, err := d.queryPort(port)
	return attr, verbs.NewOpError("ibv_query_port", d.name, port, err)
}

// queryPort queries a port, and also reports whether the port needs a GRH in every packet.
func (d *nativeDevice) queryPort(port int) (attr verbs.PortAttr, needsGRH bool, err error) {
	if port < 1 || port > d.attr.Ports {
		return verbs.PortAttr{}, false, fmt.Errorf("%w: the device has %d ports", verbs.ErrUnsupported, d.attr.Ports)
	}
	if err := d.enter(); err != nil {
		return verbs.PortAttr{}, false, err
	}
	defer d.leave()
	// The ledger has one thread state for such calls. A second caller waits, so that the
	// record of a call that hangs is not overwritten.
	d.querying.Lock()
	defer d.querying.Unlock()
	var info C.struct_port_info
	if r := C.native_query_port(d.c, C.int(port), &info); r.err != 0 {
		return verbs.PortAttr{}, false, d.commandError(unix.Errno(r.err))
	}
	attr = verbs.PortAttr{
		State: verbs.PortState(info.state), Phys: verbs.PhysState(info.phys), LinkLayer: verbs.LinkLayer(info.link_layer),
		MTU: mtuBytes(int(info.mtu)), LID: int(info.lid), SMLID: int(info.sm_lid),
	}
	attr.Width, attr.RateGbps = linkRate(int(info.width), uint32(info.speed))
	attr.EffectiveGbps = d.queryEffectiveGbps(port, attr.LinkLayer)
	d.callControlSysfs(port, func() {
		if info.speed == speedNDR {
			attr.RateGbps = d.sysfs.RateOr(d.name, port, attr.RateGbps)
		}
		d.sysfs.PortLink(d.name, port, &attr)
		if d.refusals.Allow(port, verbs.ReadCounters) {
			n, err := d.sysfs.LinkDowned(d.name, port)
			d.refusals.Record(port, verbs.ReadCounters, err)
			attr.LinkDowned, attr.HasLinkDowned = n, err == nil
		}
	})
	if attr.NetDev == "" && port == d.attr.Uplink {
		attr.NetDev = d.uplinkNetDev // without RoCE no GID names it
	}
	if attr.NetDev != "" {
		d.netDevs.Store(port, attr.NetDev)
	}
	return attr, info.needs_grh != 0, nil
}

// commandError returns the error of a command. It is ErrNoDevice only if the kernel has removed the device:
// mlx4, mlx5, hns and mthca pass on EIO from their firmware, and other drivers ENODEV, for a device that
// the kernel keeps and whose next command may succeed.
func (d *nativeDevice) commandError(errno unix.Errno) error {
	switch errno {
	case unix.EIO, unix.ENODEV, unix.ENXIO:
		if d.instance.Removed() {
			return fmt.Errorf("%w: %w", verbs.ErrNoDevice, errno)
		}
		return errno
	}
	return toVerbsError(errno)
}

// callControlSysfs runs f, which reads sysfs, and records it as the call of the control thread:
// reading an attribute may be a firmware command, which can hang (link_downed of mlx5's
// InfiniBand). The caller holds querying, unless no other goroutine has d yet.
func (d *nativeDevice) callControlSysfs(port int, f func()) { callSysfs(d.led.SetControlCall, port, f) }

// callSysfs runs f, which reads sysfs, on one thread, and records the call with set.
func callSysfs(set func(ledger.ThreadCall), port int, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	set(ledger.ThreadCall{Call: ledger.CallReadSysfs, Port: port, Thread: unix.Gettid(), Since: clock.Monotonic()})
	defer func() { set(ledger.ThreadCall{Since: clock.Monotonic()}) }()
	f()
}

func (d *nativeDevice) ReadEvents(runs []verbs.Run, wait time.Duration) (int, error) {
	if err := d.enter(); err != nil {
		return 0, verbs.NewOpError("ibv_get_async_event", d.name, 0, err)
	}
	defer d.leave()
	space := min(len(runs), runsPerRead)
	if space == 0 {
		return 0, nil
	}
	n := int(C.native_read(d.c, &d.runs[0], C.int(space), C.int64_t(wait)))
	if n < 0 {
		err := verbs.ErrClosed
		switch errno := unix.Errno(-n); errno {
		case unix.ECANCELED:
		case unix.EIO:
			// The kernel has disassociated the device from this process (ib_uverbs_event_read
			// in drivers/infiniband/core/uverbs_main.c). This error never comes from firmware.
			err = fmt.Errorf("%w: %w", verbs.ErrNoDevice, errno)
		default:
			err = toVerbsError(errno)
		}
		return 0, verbs.NewOpError("ibv_get_async_event", d.name, 0, err)
	}
	for i := range n {
		runs[i] = verbs.RunFromRing((*ledger.Run)(unsafe.Pointer(&d.runs[i])))
		if runs[i].Type == verbs.EventPKeyChange {
			d.pkeys.forget()
		}
	}
	return n, nil
}

func (d *nativeDevice) Close(timeout time.Duration) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return verbs.NewOpError("ibv_close_device", d.name, 0, verbs.ErrClosed)
	}
	d.closed = true
	if d.inside == 0 {
		close(d.idle)
	}
	d.mu.Unlock()
	C.native_wake(d.c)
	return verbs.NewOpError("ibv_close_device", d.name, 0, runUnlessResolving(d.resolving, timeout, func() error {
		<-d.idle
		d.readRemaining() // before the kernel drops the events of the objects that are destroyed
		var errs []error
		for _, p := range d.openProbes() {
			errs = append(errs, p.destroy())
		}
		for _, f := range d.openFabrics() {
			errs = append(errs, f.destroy())
		}
		d.readRemaining()
		if errno := C.native_close(d.c); errno != 0 {
			errs = append(errs, d.commandError(unix.Errno(errno)))
		}
		return errors.Join(errs...)
	}))
}

// drainLimit is the time for which Close reads events that still arrive.
const drainLimit = 100 * time.Millisecond

// readRemaining reads the events that are queued, in a storm for drainLimit. Close calls it: the reader may have been between two
// calls of ReadEvents when the device was closed, and the kernel may withdraw the device meanwhile, with a device_fatal.
func (d *nativeDevice) readRemaining() {
	for began := time.Now(); time.Since(began) < drainLimit; {
		if C.native_read(d.c, &d.runs[0], runsPerRead, 0) <= 0 {
			return
		}
	}
}

// openProbes returns the probes that no caller has closed. A probe may have been created while
// Close waited for the device to be idle.
func (d *nativeDevice) openProbes() []*nativeProbe {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.probes))
}

// openFabrics returns the FabricEndpoints that no caller has closed, as openProbes does.
func (d *nativeDevice) openFabrics() []*nativeFabric {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.fabrics))
}

// resolveDelay is the time that Close waits while the kernel resolves the address of a probe or of a FabricEndpoint's peer. If the
// address exists, an address handle takes less time.
const resolveDelay = 100 * time.Millisecond

// resolving reports whether the kernel is resolving the address of a probe or of a FabricEndpoint's peer.
func (d *nativeDevice) resolving() bool {
	if slices.ContainsFunc(d.openFabrics(), (*nativeFabric).resolving) {
		return true
	}
	var s ledger.Contents
	d.led.CopyTo(&s)
	return slices.ContainsFunc(s.Probes, func(p ledger.Probe) bool { return p.Call.Call == ledger.CallCreateAH })
}

// runUnlessResolving runs f as runWithin does, but returns ErrResolving after resolveDelay if f then
// waits until the kernel has resolved an address. That may take seconds, for which the removal of the
// device would wait.
func runUnlessResolving(resolving func() bool, timeout time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	var grace <-chan time.Time
	if timeout > resolveDelay {
		t := time.NewTimer(resolveDelay)
		defer t.Stop()
		grace = t.C
	}
	end := time.NewTimer(timeout)
	defer end.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-grace:
			if resolving() {
				return verbs.ErrResolving
			}
		case <-end.C:
			return verbs.ErrStuck
		}
	}
}

// runWithin runs f and returns ErrStuck if f takes longer than timeout, since the library may
// block f for ever. After ErrStuck the goroutine and the thread of f are lost.
func runWithin(timeout time.Duration, f func() error) error {
	return runUnlessResolving(func() bool { return false }, timeout, f)
}

func callName(c C.uint32_t) string { return ledger.Call(c).String() }
