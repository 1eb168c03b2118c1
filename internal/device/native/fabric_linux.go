//go:build linux && cgo

package native

// #include "native.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// nativeFabric implements verbs.FabricEndpoint. It guards the C fabric: one call of Run and one order may run at a time.
type nativeFabric struct {
	c          *C.struct_fabric
	d          *nativeDevice
	port, slot int
	ud         []uint32
	qkey       uint32
	running    token
	ordering   token
	out        []C.struct_fabric_item // used by Run only
	joining    atomic.Bool

	mu        sync.Mutex
	closed    bool // no call may begin
	destroyed bool // c is freed, or not created yet
}

// token contains an element while there is no current call.
type token chan struct{}

func newToken() token {
	t := make(token, 1)
	t <- struct{}{}
	return t
}

// UD implements verbs.FabricEndpoint.
func (f *nativeFabric) UD() (numbers []uint32, qkey uint32) { return f.ud, f.qkey }

// Run implements verbs.FabricEndpoint.
func (f *nativeFabric) Run(facts []verbs.FabricFact, lasting time.Duration) (n int, upTo int64, err error) {
	if len(facts) < verbs.MinFabricFacts {
		return 0, 0, f.opError("run fabric", fmt.Errorf("%w: room for %d facts instead of %d", unix.EINVAL, len(facts), verbs.MinFabricFacts))
	}
	if err := f.enter(f.running); err != nil {
		return 0, 0, f.opError("run fabric", err)
	}
	defer f.leave(f.running)
	if len(f.out) < len(facts) {
		f.out = make([]C.struct_fabric_item, len(facts))
	}
	var end C.struct_fabric_end
	n = int(C.native_fabric_run(f.c, C.int64_t(lasting), &f.out[0], C.int(len(facts)), &end))
	for i := range n {
		facts[i] = factFromC(&f.out[i])
	}
	return n, int64(end.up_to), f.runError(&end)
}

// runError returns the error of a Run that ended with end.
func (f *nativeFabric) runError(end *C.struct_fabric_end) error {
	switch {
	case end.failed.err != 0:
		return f.opError(callName(end.failed.call), f.d.queueError(unix.Errno(end.failed.err)))
	case end.wc_status != 0:
		return f.opError("run fabric", fmt.Errorf("a queue pair of datagrams failed: %s", verbs.CompletionStatus(int(end.wc_status))))
	case f.d.isClosed() || f.isClosed():
		return f.opError("run fabric", verbs.ErrClosed)
	}
	return nil
}

// queueError returns the error of a verb on existing queues. Unlike createError it never returns ErrUnsupported, since such an
// errno says nothing about what the port supports.
func (d *nativeDevice) queueError(errno unix.Errno) error {
	if err := d.createError(errno); errors.Is(err, verbs.ErrNoDevice) {
		return err
	}
	return toError(errno)
}

func (f *nativeFabric) opError(op string, err error) error {
	return verbs.NewOpError(op, f.d.name, f.port, err)
}

func factFromC(i *C.struct_fabric_item) verbs.FabricFact {
	return verbs.FabricFact{
		Kind: verbs.FabricKind(i.kind), Pair: int(i.pair), Session: uint64(i.session), Path: int(i.path), Seq: uint64(i.seq),
		Received: uint64(i.rx), Posted: uint64(i.tx), Dry: i.dry != 0,
		At: int64(i.at), Took: int64(i.took), Delay: int64(i.delay), Status: factStatus(i),
	}
}

// factStatus returns the completion status of a failed request, or the errno of a failed post.
func factStatus(i *C.struct_fabric_item) string {
	switch {
	case i.status < 0:
		return ledger.CallPostSend.String() + ": " + toError(unix.Errno(-i.status)).Error()
	case i.status > 0:
		return verbs.CompletionStatus(int(i.status))
	}
	return ""
}

// Offer implements verbs.FabricEndpoint.
func (f *nativeFabric) Offer(pair int, role verbs.FabricRole) (rc uint32, err error) {
	var number C.uint32_t
	err = f.runOrder("offer", pair, func() C.struct_result {
		return C.native_fabric_offer(f.c, C.int(pair), C.int(role), &number)
	})
	return uint32(number), err
}

// Join implements verbs.FabricEndpoint.
func (f *nativeFabric) Join(pair int, peer *verbs.FabricPeer) error {
	if len(peer.UD) < 1 || len(peer.UD) > len(f.ud) {
		return f.opError("join", fmt.Errorf("%w: %d paths, and the port has %d", unix.EINVAL, len(peer.UD), len(f.ud)))
	}
	c := peerToC(peer)
	return f.runOrder("join", pair, func() C.struct_result {
		f.joining.Store(true)
		defer f.joining.Store(false)
		return C.native_fabric_join(f.c, C.int(pair), &c)
	})
}

func peerToC(p *verbs.FabricPeer) C.struct_fabric_peer {
	c := C.struct_fabric_peer{
		role: C.int32_t(p.Role), gid_index: C.int32_t(p.GIDIndex), lid: C.int32_t(p.LID), paths: C.int32_t(len(p.UD)),
		qkey: C.uint32_t(p.QKey), rc: C.uint32_t(p.RC), psn: C.uint32_t(p.PSN), own_psn: C.uint32_t(p.OwnPSN),
		session: C.uint64_t(p.Session), first_ns: C.int64_t(p.First), gid: *(*[16]C.uint8_t)(unsafe.Pointer(&p.GID)),
	}
	if p.Global {
		c.global = 1
	}
	for i, n := range p.UD {
		c.ud[i] = C.uint32_t(n)
	}
	return c
}

// Leave implements verbs.FabricEndpoint.
func (f *nativeFabric) Leave(pair int) error {
	return f.runOrder("leave", pair, func() C.struct_result { return C.native_fabric_leave(f.c, C.int(pair)) })
}

// runOrder carries out an order for a pair slot.
func (f *nativeFabric) runOrder(what string, pair int, call func() C.struct_result) error {
	if pair < 0 || pair >= verbs.MaxFabricPairs {
		return f.opError(what, fmt.Errorf("%w: place %d of %d", unix.EINVAL, pair, verbs.MaxFabricPairs))
	}
	if err := f.enter(f.ordering); err != nil {
		return f.opError(what, err)
	}
	defer f.leave(f.ordering)
	if r := call(); r.err != 0 {
		return f.opError(callName(r.call), f.d.createError(unix.Errno(r.err)))
	}
	return nil
}

// Nudge implements verbs.FabricEndpoint. The lock keeps destroy from freeing the C fabric meanwhile.
func (f *nativeFabric) Nudge() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.destroyed {
		C.native_fabric_nudge(f.c)
	}
}

// enter admits a call: it waits for the token of the call, and fails if the endpoint or the device is closed.
func (f *nativeFabric) enter(t token) error {
	if err := f.d.enter(); err != nil {
		return err
	}
	<-t
	if f.isClosed() {
		f.leave(t)
		return verbs.ErrClosed
	}
	return nil
}

func (f *nativeFabric) leave(t token) {
	t <- struct{}{}
	f.d.leave()
}

func (f *nativeFabric) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// Close implements verbs.FabricEndpoint. It ends a current Run, and waits for a current order.
func (f *nativeFabric) Close(timeout time.Duration) error {
	if err := f.d.enter(); err != nil {
		return f.opError("close fabric", err)
	}
	if !f.markClosed() {
		f.d.leave()
		return f.opError("close fabric", verbs.ErrClosed)
	}
	f.Nudge()
	return f.opError("close fabric", runUnlessResolving(f.resolving, timeout, func() error {
		defer f.d.leave()
		err := f.destroy()
		f.d.removeFabric(f)
		return err
	}))
}

// markClosed makes the endpoint admit no new call, and reports whether this was the first call of markClosed.
func (f *nativeFabric) markClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := !f.closed
	f.closed = true
	return first
}

// destroy waits for the current calls and frees the C fabric, once. The device's Close calls it for endpoints that were not
// closed.
func (f *nativeFabric) destroy() error {
	f.markClosed()
	<-f.running
	<-f.ordering
	defer func() { f.running <- struct{}{}; f.ordering <- struct{}{} }()
	f.mu.Lock()
	already := f.destroyed
	f.destroyed = true
	f.mu.Unlock()
	if already {
		return nil
	}
	if r := C.native_fabric_close(f.c); r.err != 0 {
		return fmt.Errorf("%s: %w", callName(r.call), f.d.commandError(unix.Errno(r.err)))
	}
	return nil
}

// resolving reports whether a Join waits until the kernel has resolved the peer's address, which it does both to create an
// address handle and to connect a queue pair.
func (f *nativeFabric) resolving() bool {
	var s ledger.Contents
	f.d.led.CopyTo(&s)
	return f.joining.Load() && slices.ContainsFunc(s.Fabrics, func(l ledger.FabricState) bool {
		return l.Port == f.port && (l.Control.Call == ledger.CallCreateAH || l.Control.Call == ledger.CallModifyQP)
	})
}
