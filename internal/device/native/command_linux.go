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

// ReadCounter implements verbs.Device. Close does not wait for it: it uses nothing that
// the library has made.
func (d *nativeDevice) ReadCounter(port int) error {
	if d.isClosed() {
		return verbs.NewOpError("read hw_counter", d.name, port, verbs.ErrClosed)
	}
	var err error
	inSysfs(d.led.SetEvidenceCall, port, func() { err = d.sysfs.ReadHWCounter(d.name, port) })
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

// queryQP holds asking, since p must not be destroyed meanwhile, and not mu, for which
// Nudge would wait.
func (p *nativeProbe) queryQP() error {
	p.asking.Lock()
	defer p.asking.Unlock()
	p.mu.Lock()
	gone := p.destroyed
	p.mu.Unlock()
	if gone {
		return verbs.ErrClosed
	}
	if r := C.native_query_qp(p.c); r.err != 0 {
		return cause(unix.Errno(r.err))
	}
	return nil
}
