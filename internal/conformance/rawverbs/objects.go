//go:build guest

package rawverbs

/*
#cgo CFLAGS: -O2 -std=gnu11 -Wall
#cgo LDFLAGS: -libverbs
#include <infiniband/verbs.h>
#include "objects.h"
*/
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"
)

// Options describe the objects that New creates.
type Options struct {
	Completions int  // minimum size of the CQ
	SRQ         bool // receives go to a shared receive queue
	UD          bool // the queue pair is UD; otherwise RC
}

// State is a state of a queue pair (enum ibv_qp_state).
type State int

// The states that Move can set.
const (
	Reset   State = C.IBV_QPS_RESET
	Drained State = C.IBV_QPS_SQD
	Error   State = C.IBV_QPS_ERR
)

// WRFlushErr is the status of a completion that was flushed (enum ibv_wc_status).
const WRFlushErr = int(C.IBV_WC_WR_FLUSH_ERR)

// Objects are a protection domain, a completion queue, an optional shared receive queue, and a queue pair.
// The methods must not be called concurrently. Errors wrap a syscall.Errno.
type Objects struct{ c *C.struct_objects }

// New creates objects on an open context (struct ibv_context).
func New(context unsafe.Pointer, o Options) (*Objects, error) {
	kind, srq := C.int(C.IBV_QPT_RC), C.int(0)
	if o.UD {
		kind = C.IBV_QPT_UD
	}
	if o.SRQ {
		srq = 1
	}
	var objects Objects
	if err := callError("make objects", C.objects_make(context, C.int(o.Completions), srq, kind, &objects.c)); err != nil {
		return nil, err
	}
	return &objects, nil
}

func callError(what string, errno C.int) error {
	if errno == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", what, syscall.Errno(errno))
}

// Completions returns the size of the CQ.
func (o *Objects) Completions() int { return int(C.objects_cqe(o.c)) }

// Init moves the queue pair from RESET to INIT.
func (o *Objects) Init() error { return callError("move to INIT", C.objects_init(o.c)) }

// ReadyToReceive connects the queue pair to itself, over GID 0, and moves it from INIT to RTR.
func (o *Objects) ReadyToReceive() error {
	return callError("move to RTR", C.objects_ready_to_receive(o.c))
}

// ReadyToSend moves the queue pair to RTS.
func (o *Objects) ReadyToSend() error { return callError("move to RTS", C.objects_ready_to_send(o.c)) }

// Connect connects the queue pair to itself: it moves it from RESET to RTS.
func (o *Objects) Connect() error {
	for _, step := range []func() error{o.Init, o.ReadyToReceive, o.ReadyToSend} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Move moves the queue pair to a state.
func (o *Objects) Move(s State) error { return callError("move", C.objects_move(o.c, C.int(s))) }

// PostWrites posts n signaled zero-length RDMA writes.
func (o *Objects) PostWrites(n int) error {
	return callError("post write", C.objects_post_writes(o.c, C.int(n)))
}

// PostSends posts n signaled zero-length sends.
func (o *Objects) PostSends(n int) error {
	return callError("post send", C.objects_post_sends(o.c, C.int(n)))
}

// PostReceives posts n receives without memory.
func (o *Objects) PostReceives(n int) error {
	return callError("post receive", C.objects_post_receives(o.c, C.int(n)))
}

// Limit arms the shared receive queue's limit.
func (o *Objects) Limit(n int) error { return callError("set limit", C.objects_limit(o.c, C.int(n))) }

// Poll polls up to 64 completions, and returns their number and the status of the last one.
func (o *Objects) Poll() (n, status int, err error) {
	var count, last C.int
	err = callError("poll", C.objects_poll(o.c, &count, &last))
	return int(count), int(last), err
}

// Destroy destroys all objects. A second call does nothing. Destroy blocks until all events of the objects
// that were read have been acknowledged.
func (o *Objects) Destroy() error {
	c := o.c
	o.c = nil
	if c == nil {
		return nil
	}
	return callError("destroy objects", C.objects_destroy(c))
}
