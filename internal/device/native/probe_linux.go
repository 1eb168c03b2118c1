//go:build linux && cgo

package native

// #include "native.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

func (d *nativeDevice) NewProbe(c verbs.ProbeConfig) (verbs.Probe, error) {
	if err := d.enter(); err != nil {
		return nil, verbs.NewOpError("new probe", d.name, c.Port, err)
	}
	defer d.leave()
	cfg, err := d.prepareProbe(c)
	if err != nil {
		return nil, verbs.NewOpError("new probe", d.name, c.Port, err)
	}
	p := &nativeProbe{d: d, port: c.Port, gidIndex: -1, keepsQP: c.Method != verbs.MethodFlush, idle: make(chan struct{}, 1)}
	if cfg.global != 0 {
		p.gidIndex = int(cfg.gid_index)
	}
	p.idle <- struct{}{}
	if r := C.native_probe_open(d.c, &cfg, &p.c); r.err != 0 {
		return nil, verbs.NewOpError(callName(r.call), d.name, c.Port, d.createError(unix.Errno(r.err)))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.probes == nil {
		d.probes = map[*nativeProbe]struct{}{}
	}
	d.probes[p] = struct{}{}
	return p, nil
}

// createError returns the error of a verb that could not create its part of a probe. It is ErrNoDevice if
// the kernel has removed the device, see commandError.
func (d *nativeDevice) createError(errno unix.Errno) error {
	if err := d.commandError(errno); errors.Is(err, verbs.ErrNoDevice) {
		return err
	}
	return probeError(errno)
}

// readPKeys returns the index of the port's first P_Key with full membership. It may hang: some
// drivers ask the device for a P_Key, whereas GIDs come from the kernel itself.
func (d *nativeDevice) readPKeys(port int) (index int, err error) {
	d.querying.Lock()
	defer d.querying.Unlock()
	d.callControlSysfs(0, func() { index, err = d.sysfs.FirstFullMember(d.name, port) })
	return index, err
}

// prepareProbe queries the port, chooses the probe's source address, and takes a slot of the ledger for the probe.
func (d *nativeDevice) prepareProbe(c verbs.ProbeConfig) (C.struct_probe_config, error) {
	var none C.struct_probe_config
	if c.Method <= verbs.MethodNone || c.Method > verbs.MethodFlush {
		return none, fmt.Errorf("%w: method %s", verbs.ErrUnsupported, c.Method)
	}
	if c.Vector < 0 || c.Vector >= d.attr.Vectors {
		return none, fmt.Errorf("%w: completion vector %d of %d", verbs.ErrUnsupported, c.Vector, d.attr.Vectors)
	}
	attr, needsGRH, err := d.queryPort(c.Port)
	if err != nil {
		return none, verbs.NewOpError("ibv_query_port", d.name, c.Port, err)
	}
	path, err := d.sysfs.ProbePath(d.name, c, attr, needsGRH, d.attr.Transport)
	if err != nil {
		return none, err
	}
	pkey := c.PKeyIndex
	if pkey < 0 {
		if pkey, err = d.pkeys.get(c.Port, func() (int, error) { return d.readPKeys(c.Port) }); err != nil {
			return none, err
		}
	}
	slot, err := d.led.AddProbe(c.Port, c.Vector, int(c.Method))
	if err != nil {
		return none, fmt.Errorf("%w: %w", verbs.ErrLimit, err)
	}
	cfg := C.struct_probe_config{
		port: C.int32_t(c.Port), vector: C.int32_t(c.Vector), method: C.int32_t(c.Method), slot: C.int32_t(slot),
		ack_batch: C.int32_t(max(c.AckBatch, 1)), gid_index: C.int32_t(path.GIDIndex),
		pkey_index: C.int32_t(pkey), lid: C.int32_t(attr.LID),
		timeout_ns: C.int64_t(c.Timeout),
	}
	if c.Trial {
		cfg.trial = 1
	}
	if path.Global {
		cfg.global = 1
	}
	// Only RoCE has addresses that change. EFA's address never changes, and creating a handle is a command there.
	if attr.LinkLayer != verbs.LinkEthernet {
		cfg.keep_handle = 1
	}
	if verbs.AddressHandleIsCommand(d.attr.Driver) {
		cfg.handle_command = 1
	}
	for i, b := range path.GID {
		cfg.gid[i] = C.uint8_t(b)
	}
	return cfg, nil
}

// nativeProbe implements verbs.Probe. It guards the C probe: idle contains a token while there is no current call.
type nativeProbe struct {
	c          *C.struct_probe
	d          *nativeDevice
	port       int
	gidIndex   int            // of the source GID; -1: none
	keepsQP    bool           // all rounds use the same queue pair
	unusable   bool           // set by Round's goroutine
	last       C.struct_round // used by Rounds only
	idle       chan struct{}
	queryingQP sync.Mutex // held while the queue pair is queried, and destroyed

	mu        sync.Mutex
	closed    bool // no Round may begin
	destroyed bool // c is freed
}

func (p *nativeProbe) Round(pause time.Duration) (verbs.Round, error) {
	r, _, err := p.Rounds(verbs.Pace{Pause: pause})
	return r, err
}

func (p *nativeProbe) Rounds(pace verbs.Pace) (last verbs.Round, done int, err error) {
	canceled := verbs.Round{Outcome: verbs.OutcomeCanceled}
	if err := p.d.enter(); err != nil {
		return canceled, 0, verbs.NewOpError("probe", p.d.name, p.port, err)
	}
	defer p.d.leave()
	if !p.acquire() {
		return canceled, 0, verbs.NewOpError("probe", p.d.name, p.port, verbs.ErrClosed)
	}
	defer func() { p.idle <- struct{}{} }()
	var usable C.int
	n := int(C.native_probe_rounds(p.c, C.int64_t(pace.Pause), C.int64_t(pace.Interval), C.int64_t(pace.For), &p.last, &usable))
	last = verbs.RoundFromRing((*ledger.Round)(unsafe.Pointer(&p.last)))
	if last.Outcome == verbs.OutcomeCanceled {
		n--
		if p.d.isClosed() {
			return last, n, verbs.NewOpError("probe", p.d.name, p.port, verbs.ErrClosed)
		}
	}
	p.unusable = usable == 0
	return last, n, nil
}

// Keep implements Probe.
func (p *nativeProbe) Keep() {
	if p.d.enter() != nil {
		return
	}
	defer p.d.leave()
	if !p.acquire() {
		return
	}
	defer func() { p.idle <- struct{}{} }()
	C.native_probe_keep(p.c)
}

// Nudge implements Probe. The lock keeps destroy from freeing the C probe meanwhile.
func (p *nativeProbe) Nudge() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.destroyed {
		C.native_probe_nudge(p.c)
	}
}

// acquire waits for the token and reports whether a Round may begin. If not, it returns the token.
func (p *nativeProbe) acquire() bool {
	<-p.idle
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.idle <- struct{}{}
	}
	return !p.closed
}

func (p *nativeProbe) Usable() bool { return !p.unusable }

// Close ends the pause of a current Round, or waits for the Round if it is past its pause. Such a
// Round ends at its own deadline, or at once when the device is closed.
func (p *nativeProbe) Close(timeout time.Duration) error {
	if err := p.d.enter(); err != nil {
		return verbs.NewOpError("close probe", p.d.name, p.port, err)
	}
	if !p.markClosed() {
		p.d.leave()
		return verbs.NewOpError("close probe", p.d.name, p.port, verbs.ErrClosed)
	}
	p.Nudge()
	return verbs.NewOpError("close probe", p.d.name, p.port, runWithin(timeout, func() error {
		defer p.d.leave()
		err := p.destroy()
		p.d.mu.Lock()
		defer p.d.mu.Unlock()
		delete(p.d.probes, p)
		return err
	}))
}

// markClosed makes the probe admit no new Round, and reports whether this was the first call.
func (p *nativeProbe) markClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.closed
	p.closed = true
	return first
}

// destroy waits for a current Round and frees the C probe, once. The device's Close calls it for
// probes that were not closed.
func (p *nativeProbe) destroy() error {
	p.markClosed()
	<-p.idle
	defer func() { p.idle <- struct{}{} }()
	p.queryingQP.Lock()
	defer p.queryingQP.Unlock()
	p.mu.Lock()
	already := p.destroyed
	p.destroyed = true
	p.mu.Unlock()
	if already {
		return nil
	}
	if r := C.native_probe_close(p.c); r.err != 0 {
		return fmt.Errorf("%s: %w", callName(r.call), p.d.commandError(unix.Errno(r.err)))
	}
	return nil
}
