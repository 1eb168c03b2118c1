package nldev

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// Kind is a kind of objects. Its value is the kernel's name for it, as in the result of QueryResources.
type Kind string

// The kinds that Dump lists.
const (
	Contexts            Kind = "ctx"
	ProtectionDomains   Kind = "pd"
	CompletionQueues    Kind = "cq"
	SharedReceiveQueues Kind = "srq"
	QueuePairs          Kind = "qp"
)

// Limits for the cost of listing the objects of one device (res_get_common_dumpit and fill_res_srq_qps in
// drivers/infiniband/core/nldev.c, Linux 6.1 and newer).
const (
	// maxQueuePairs limits queue pairs: the kernel calls ib_query_qp for each one, with mlx5 a command to the firmware.
	maxQueuePairs = 4096
	// maxObjects limits other objects: for each part of a list (32 KiB at most) the kernel walks all objects of the
	// earlier parts again, under a spinlock that creating and destroying an object also takes.
	maxObjects = 16384
	// maxSharing limits the number of shared receive queues times the number of queue pairs: for each shared receive
	// queue the kernel walks all queue pairs under their spinlock.
	maxSharing = 1 << 20
	// maxEmpty limits the parts without an object in a row. One is usual if an entry does not fit into the rest of the
	// first part. A shared receive queue whose entry, with all its queue pairs, fits into no part makes the kernel send
	// empty parts without end.
	maxEmpty = 8
)

// The errors of Dump, besides ErrNoDevice. Dump returns them wrapped.
var (
	// ErrTooMany means that a device has more objects than Dump lists. QueryResources counts them.
	ErrTooMany = errors.New("too many objects")
	// ErrUnsupported means that the kernel has no such list (contexts and shared receive queues: before 5.14), that it
	// has no RDMA netlink at all, or that the driver refused to describe an object: the errno is the same (EINVAL).
	ErrUnsupported = errors.New("not supported by this kernel or driver")
	// ErrEndless means that the kernel sends parts without an object and makes no progress.
	ErrEndless = errors.New("an entry fits into no part of the list")
)

// Object is an object of a device.
type Object struct {
	Kind Kind
	// Number is lqpn for a queue pair, otherwise the number of resource tracking (ctxn, pdn, cqn, srqn of
	// `rdma resource show`), which can be 0. Numbers are unique within a kind, except those of the kernel's own queue
	// pairs, 0 and 1 on each port.
	Number uint32
	// Thread is the thread that created the object, in this process' pid namespace. For a shared receive queue it is
	// the creator of the protection domain (rdma_restrack_parent_name in ib_create_srq_user). It is 0 for the kernel's
	// objects, and for a thread that has ended or is not visible (fill_res_name_pid, task_pid_vnr).
	Thread int
	// Kernel is the kernel module that owns the object, as in "ib_core"; "" for an object of a program.
	Kernel string
	// Parent is the protection domain of a queue pair or shared receive queue, and the context of a protection domain
	// or completion queue. HasParent is false for contexts, and for the kernel's objects other than shared receive
	// queues.
	Parent    uint32
	HasParent bool
	State     State
}

// Dump calls f for each object of a kind, in the order of their numbers and once for each. An error of f ends the list,
// and Dump returns it. If objects are created or destroyed meanwhile, these and others may be missing: the kernel
// continues at a position, not at a number. Newer kernels leave out queue pairs of driver-specific types.
//
// Dump needs no capability: only commands that change something, and commands for raw contents, have RDMA_NL_ADMIN_PERM
// in nldev_cb_table. It blocks for as long as the kernel and, for queue pairs, the device need. The kernel holds a
// reference to the device during each part of the list, so that a removal waits for the end of the part. Each call uses
// its own socket, so that any goroutine may call Dump.
func Dump(device string, kind Kind, f func(Object) error) error {
	if err := dumpObjects(device, kind, f); err != nil {
		return fmt.Errorf("ask RDMA netlink for each %s of %s: %w", kind, device, err)
	}
	return nil
}

func dumpObjects(device string, kind Kind, f func(Object) error) error {
	l, err := newListing(kind, f)
	if err != nil {
		return err
	}
	c, number, err := dialDevice(device)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return errors.Join(ErrUnsupported, err)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	counts, err := countObjects(c, number)
	if err == nil {
		err = checkCost(kind, counts)
	}
	if err == nil {
		err = c.Ask(l.command, unix.NLM_F_DUMP, deviceAttribute(number), l.readPart)
	}
	if l.failed != nil || !isRefusal(err) {
		return err
	}
	// The kernel also returns EINVAL for a device that was removed since its number was read.
	if _, again := findDevice(c, device); again != nil {
		return again
	}
	return errors.Join(ErrUnsupported, err)
}

// isRefusal reports whether the kernel refused a list: with EINVAL for an unknown command (rdma_nl_rcv_msg in
// drivers/infiniband/core/netlink.c), with EOPNOTSUPP for a driver without query_qp (ib_query_qp).
func isRefusal(err error) bool { return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) }

// checkCost returns ErrTooMany if a device with these numbers of objects has too many for a list of a kind.
func checkCost(kind Kind, counts map[string]uint64) error {
	n, pairs := counts[string(kind)], counts[string(QueuePairs)]
	if most := maxListed(kind); n > uint64(most) {
		return fmt.Errorf("%w: %d, at most %d are listed", ErrTooMany, n, most)
	}
	if kind == SharedReceiveQueues && n > 0 && pairs > maxSharing/n {
		return fmt.Errorf("%w: %d, with %d queue pairs to search for each", ErrTooMany, n, pairs)
	}
	return nil
}

// maxListed returns the largest number of objects of a kind that Dump lists.
func maxListed(kind Kind) int {
	if kind == QueuePairs {
		return maxQueuePairs
	}
	return maxObjects
}

// listing is the state of a list of objects while it is read.
type listing struct {
	kind                   Kind
	command                uint16
	table, entry           uint16
	numberAttr, parentAttr uint16
	f                      func(Object) error

	failed error  // the error of f
	seen   int    // objects so far
	last   uint64 // the position of the last object, plus 1
	empty  int    // parts without an object in a row
}

// noAttr is not the kind of any attribute: netlink.Each removes the upper bits.
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

// readPart reads a part of the list.
func (l *listing) readPart(body []byte) error {
	l.empty++
	err := eachEntry(body, l.table, l.entry, l.readObject)
	if err == nil && l.empty >= maxEmpty {
		err = ErrEndless
	}
	return err
}

// readObject reads an entry, and calls f unless the entry is empty or repeats an object.
func (l *listing) readObject(fields []byte) error {
	l.empty = 0
	e := entry{Object: Object{Kind: l.kind, State: StateUnknown}}
	err := netlink.Each(fields, func(attr uint16, value []byte) error {
		e.setAttribute(l, attr, value)
		return nil
	})
	if err != nil || !e.numbered { // fill_res_ctx_entry leaves the entry of the kernel's own context empty
		return err
	}
	// The kernel continues at a position, so that an object that was created before it shifts the list and repeats the last object.
	place := e.position() + 1
	if place <= l.last {
		return nil
	}
	l.last = place
	if l.seen++; l.seen > maxListed(l.kind) {
		return fmt.Errorf("%w: more than the %d that are listed", ErrTooMany, maxListed(l.kind))
	}
	l.failed = l.f(e.Object)
	return l.failed
}

// entry is an entry of a list: an object, and the attributes that decide its position.
type entry struct {
	Object
	numbered bool   // Number is set
	special  bool   // a queue pair of the kernel for management (SMI, GSI)
	port     uint32 // of a queue pair
}

func (e *entry) setAttribute(l *listing, attr uint16, value []byte) {
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

// position returns the key by which the kernel sorts: the number and, for management queue pairs, the port in the higher
// bits (rdma_restrack_add in drivers/infiniband/core/restrack.c).
func (e *entry) position() uint64 {
	if e.special {
		return uint64(e.Number) | uint64(e.port)<<24
	}
	return uint64(e.Number)
}
