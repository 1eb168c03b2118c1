package nldev

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// Kind is a kind of objects, by the kernel's name for it, which is also its key in Resources.
type Kind string

// The kinds that Dump lists.
const (
	Contexts            Kind = "ctx"
	ProtectionDomains   Kind = "pd"
	CompletionQueues    Kind = "cq"
	SharedReceiveQueues Kind = "srq"
	QueuePairs          Kind = "qp"
)

// What the list of one device may cost (res_get_common_dumpit and fill_res_srq_qps in drivers/infiniband/core/nldev.c,
// Linux 6.1 and newer).
const (
	// maxQueuePairs: the kernel calls ib_query_qp for each queue pair, with mlx5 a command to the firmware each.
	maxQueuePairs = 4096
	// maxObjects: each part of a list (32 KiB at most) walks all objects before it again, under a spinlock that
	// creating and destroying an object takes too.
	maxObjects = 16384
	// maxSharing is for shared receive queues times queue pairs: for each of the former the kernel walks all of the
	// latter under the spinlock of the queue pairs.
	maxSharing = 1 << 20
	// maxEmpty is how many parts without an object may follow each other. One is usual where an entry does not fit
	// into what was left of the first part. A shared receive queue whose entry, with all its queue pairs, fits into
	// no part makes the kernel send empty ones without end.
	maxEmpty = 8
)

// Dump returns one of these wrapped, or ErrNoDevice.
var (
	// ErrTooMany means that a device has more objects than are listed. Resources counts them.
	ErrTooMany = errors.New("too many objects")
	// ErrUnsupported means that the kernel has no such list (contexts and shared receive queues: older than 5.14), no
	// RDMA netlink at all, or that the driver refused to describe an object: the errno is the same (EINVAL).
	ErrUnsupported = errors.New("not supported by this kernel or driver")
	// ErrEndless means that the kernel sends parts without an object and makes no progress.
	ErrEndless = errors.New("an entry fits into no part of the list")
)

// Object is an object of a device.
type Object struct {
	Kind Kind
	// Number is lqpn for a queue pair, otherwise the number of resource tracking (ctxn, pdn, cqn, srqn of
	// `rdma resource show`), which can be 0. Numbers differ among one kind, except those of the kernel's own queue
	// pairs, 0 and 1 on each port.
	Number uint32
	// Thread is the thread that created the object, in this process's pid namespace. For a shared receive queue it is
	// that of its protection domain (rdma_restrack_parent_name in ib_create_srq_user). It is 0 for the kernel's
	// objects, for a thread that has ended and for one that is not visible (fill_res_name_pid, task_pid_vnr).
	Thread int
	// Kernel is the module whose object it is, as in "ib_core"; "" for a program's.
	Kernel string
	// Parent is the protection domain of a queue pair or shared receive queue, and the context of a protection domain
	// or completion queue. HasParent is false for contexts. It is false for the kernel's objects too, but for its
	// shared receive queues.
	Parent    uint32
	HasParent bool
	State     State
}

// Dump calls f for each object of a kind, in the order of their numbers and not twice for one. An error of f ends the
// list and is returned. Objects that are created or destroyed meanwhile may be missing, and also others then: the
// kernel goes on at a position, not at a number. Newer kernels leave out queue pairs of a driver's own types.
//
// It needs no capability: only commands that change something, and those for raw contents, have RDMA_NL_ADMIN_PERM in
// nldev_cb_table. It blocks for as long as the kernel and, for queue pairs, the device need. The kernel holds the
// device during each part of the list, so that a removal waits for the part, and not between two parts. Each call has
// its own socket; any goroutine may call it.
func Dump(device string, kind Kind, f func(Object) error) error {
	if err := dump(device, kind, f); err != nil {
		return fmt.Errorf("ask RDMA netlink for each %s of %s: %w", kind, device, err)
	}
	return nil
}

func dump(device string, kind Kind, f func(Object) error) error {
	l, err := newListing(kind, f)
	if err != nil {
		return err
	}
	c, number, err := dial(device)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return errors.Join(ErrUnsupported, err)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	counts, err := count(c, number)
	if err == nil {
		err = affordable(kind, counts)
	}
	if err == nil {
		err = c.Ask(l.command, unix.NLM_F_DUMP, which(number), l.part)
	}
	if l.failed != nil || !refused(err) {
		return err
	}
	// A device that was removed since its number was read is EINVAL too.
	if _, again := index(c, device); again != nil {
		return again
	}
	return errors.Join(ErrUnsupported, err)
}

// refused reports whether the kernel refused a list. An unknown command is EINVAL (rdma_nl_rcv_msg in
// drivers/infiniband/core/netlink.c), a driver without query_qp EOPNOTSUPP (ib_query_qp).
func refused(err error) bool { return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) }

// affordable checks what a list would cost against what a device has.
func affordable(kind Kind, counts map[string]uint64) error {
	n, pairs := counts[string(kind)], counts[string(QueuePairs)]
	if most := limit(kind); n > uint64(most) {
		return fmt.Errorf("%w: %d, at most %d are listed", ErrTooMany, n, most)
	}
	if kind == SharedReceiveQueues && n > 0 && pairs > maxSharing/n {
		return fmt.Errorf("%w: %d, with %d queue pairs to search for each", ErrTooMany, n, pairs)
	}
	return nil
}

func limit(kind Kind) int {
	if kind == QueuePairs {
		return maxQueuePairs
	}
	return maxObjects
}

// listing is a list of objects that is being read.
type listing struct {
	kind                   Kind
	command                uint16
	table, entry           uint16
	numberAttr, parentAttr uint16
	f                      func(Object) error

	failed error // of f
	seen   int
	last   uint64
	empty  int
}

// noAttr is the kind of no attribute: netlink.Each takes the upper bits away.
const noAttr = 0xffff

func newListing(kind Kind, f func(Object) error) (*listing, error) {
	l := &listing{kind: kind, f: f}
	switch kind {
	case Contexts:
		l.command, l.table, l.entry, l.numberAttr, l.parentAttr = resCtxGet, attrCtx, attrCtxEntry, attrCtxN, noAttr
	case ProtectionDomains:
		l.command, l.table, l.entry, l.numberAttr, l.parentAttr = resPDGet, attrPD, attrPDEntry, attrPDN, attrCtxN
	case CompletionQueues:
		l.command, l.table, l.entry, l.numberAttr, l.parentAttr = resCQGet, attrCQ, attrCQEntry, attrCQN, attrCtxN
	case SharedReceiveQueues:
		l.command, l.table, l.entry, l.numberAttr, l.parentAttr = resSRQGet, attrSRQ, attrSRQEntry, attrSRQN, attrPDN
	case QueuePairs:
		l.command, l.table, l.entry, l.numberAttr, l.parentAttr = resQPGet, attrQP, attrQPEntry, attrLQPN, attrPDN
	default:
		return nil, fmt.Errorf("there is no list of %q", string(kind))
	}
	return l, nil
}

// part reads a part of the list.
func (l *listing) part(body []byte) error {
	l.empty++
	err := entries(body, l.table, l.entry, l.object)
	if err == nil && l.empty >= maxEmpty {
		err = ErrEndless
	}
	return err
}

// object reads an entry.
func (l *listing) object(fields []byte) error {
	l.empty = 0
	e := entry{Object: Object{Kind: l.kind, State: StateUnknown}}
	err := netlink.Each(fields, func(attr uint16, value []byte) error {
		e.set(l, attr, value)
		return nil
	})
	if err != nil || !e.numbered { // fill_res_ctx_entry leaves the entry of the kernel's own context empty
		return err
	}
	// The kernel goes on at a position, so that an object created before it repeats what came last.
	place := e.place() + 1
	if place <= l.last {
		return nil
	}
	l.last = place
	if l.seen++; l.seen > limit(l.kind) {
		return fmt.Errorf("%w: more than the %d that are listed", ErrTooMany, limit(l.kind))
	}
	l.failed = l.f(e.Object)
	return l.failed
}

// entry is an object with what only its place in the list needs.
type entry struct {
	Object
	numbered bool
	special  bool
	port     uint32
}

func (e *entry) set(l *listing, attr uint16, value []byte) {
	switch attr {
	case l.numberAttr:
		e.Number, e.numbered = netlink.ParseWord(value), len(value) >= 4
	case l.parentAttr:
		e.Parent, e.HasParent = netlink.ParseWord(value), len(value) >= 4
	case attrPID:
		e.Thread = int(netlink.ParseWord(value))
	case attrKernName:
		e.Kernel = netlink.ParseText(value)
	case attrPortIndex:
		e.port = netlink.ParseWord(value)
	case attrType:
		e.special = l.kind == QueuePairs && len(value) > 0 && value[0] <= ibQPTGSI
	case attrState:
		if l.kind == QueuePairs && len(value) > 0 {
			e.State = State(value[0])
		}
	}
}

const ibQPTGSI = 1 // IB_QPT_GSI of enum ib_qp_type; IB_QPT_SMI is 0

// place is what the kernel sorts by: the number, and for queue pairs of management also the port above it
// (rdma_restrack_add in drivers/infiniband/core/restrack.c).
func (e *entry) place() uint64 {
	if e.special {
		return uint64(e.Number) | uint64(e.port)<<24
	}
	return uint64(e.Number)
}
