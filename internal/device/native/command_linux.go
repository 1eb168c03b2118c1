//go:build linux && cgo

package native

// #include "native.h"
import "C"

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
)

// Commands implements verbs.Device.
func (d *nativeDevice) Commands() verbs.CommandSet { return verbs.DriverCommands(d.attr.Driver) }

// ReadCounter implements verbs.Device. Close does not wait for it, since it uses no object of
// the library.
func (d *nativeDevice) ReadCounter(port int) error {
	if d.isClosed() {
		return verbs.NewOpError("read hw_counter", d.name, port, verbs.ErrClosed)
	}
	var err error
	callSysfs(d.led.SetEvidenceCall, port, func() { err = d.sysfs.ReadHWCounter(d.name, port) })
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", verbs.ErrUnsupported, err)
	}
	return verbs.NewOpError("read hw_counter", d.name, port, err)
}

// QueryQP implements verbs.Device.
func (d *nativeDevice) QueryQP(port int) error {
	if err := d.enter(); err != nil {
		return verbs.NewOpError("ibv_query_qp", d.name, port, err)
	}
	defer d.leave()
	for _, p := range d.openProbes() {
		if p.port == port && p.keepsQP {
			if err := p.queryQP(); !errors.Is(err, verbs.ErrClosed) {
				return verbs.NewOpError("ibv_query_qp", d.name, port, err)
			}
		}
	}
	return verbs.NewOpError("ibv_query_qp", d.name, port, fmt.Errorf("%w: no probe has a queue pair", verbs.ErrUnsupported))
}

// queryQP queries the state of the queue pair. It holds queryingQP so that p is not destroyed
// meanwhile; it does not hold mu, for which Nudge would wait.
func (p *nativeProbe) queryQP() error {
	p.queryingQP.Lock()
	defer p.queryingQP.Unlock()
	p.mu.Lock()
	already := p.destroyed
	p.mu.Unlock()
	if already {
		return verbs.ErrClosed
	}
	if r := C.native_query_qp(p.c); r.err != 0 {
		return toError(unix.Errno(r.err))
	}
	return nil
}
