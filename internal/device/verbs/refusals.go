package verbs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrRefused is the error of a read that was skipped because the firmware has refused it before.
var ErrRefused = errors.New("the firmware refuses it, and is asked again later")

// Limits of the reads that firmware refuses. mlx5 writes a line to the kernel log for each refusal.
const (
	// RefusalRow is the number of identical refusals in a row after which a read counts as refused.
	RefusalRow = 3
	// RefusalsAnHour is the largest number of refused reads of a port in an hour, after the first
	// minute.
	RefusalsAnHour = 4
	refusalSpan    = time.Hour
	refusalGrace   = time.Minute
)

// Read is a kind of read that a device may refuse.
type Read uint8

// The reads.
const (
	ReadQueryPort  Read = iota // ibv_query_port
	ReadCounters               // sysfs, counters
	ReadHWCounters             // sysfs and netlink, hw_counters
	ReadQueryQP                // ibv_query_qp
	reads
)

// String returns the read as logs name it.
func (r Read) String() string {
	switch r {
	case ReadQueryPort:
		return "ibv_query_port"
	case ReadCounters:
		return "counters"
	case ReadHWCounters:
		return "hw_counters"
	case ReadQueryQP:
		return "ibv_query_qp"
	}
	return "unknown"
}

// Refusals limits the reads that a device's firmware refuses, as the firmware of restricted functions does. A read of a port
// that was refused RefusalRow times in a row with the same errno is then made only once an hour, and once after an event
// (Retry). Besides, a port has at most RefusalsAnHour refused reads an hour, after the first minute. The methods may be
// called concurrently; none blocks. A nil Refusals limits nothing.
type Refusals struct {
	now func() int64 // ns of a clock that is never set

	mu    sync.Mutex
	ports map[int]*refusingPort
}

// NewRefusals returns Refusals that use the clock now, in ns.
func NewRefusals(now func() int64) *Refusals {
	return &Refusals{now: now, ports: map[int]*refusingPort{}}
}

// refusingPort records the refusals of a port. Its times are results of Refusals.now.
type refusingPort struct {
	reads   [reads]refusedRead
	refused bool    // there was a refusal, and began is set
	began   int64   // time of the first refusal
	spent   []int64 // times of the refused reads after the first minute
}

type refusedRead struct {
	errno    unix.Errno
	row      int   // identical refusals in a row
	at       int64 // time of the last refusal
	answered bool  // the firmware has answered the read at least once
	retry    bool  // an event has come since the last refusal
}

func (r *refusedRead) isRefused() bool { return r.row >= RefusalRow }

func (r *Refusals) findOrAddPort(number int) *refusingPort {
	p := r.ports[number]
	if p == nil {
		p = &refusingPort{}
		r.ports[number] = p
	}
	return p
}

// Allow reports whether a read of a port may be made now. The caller then passes the outcome to Record.
func (r *Refusals) Allow(port int, read Read) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p, now := r.findOrAddPort(port), r.now()
	one := &p.reads[read]
	switch {
	case one.isRefused():
		return (one.retry || now-one.at >= int64(refusalSpan)) && p.isBelowLimit(now)
	case one.answered || !p.refused || now-p.began < int64(refusalGrace):
		return true
	}
	return p.isBelowLimit(now)
}

// isBelowLimit reports whether the port has had less than RefusalsAnHour refused reads in the last hour.
func (p *refusingPort) isBelowLimit(now int64) bool {
	p.spent = slices.DeleteFunc(p.spent, func(at int64) bool { return now-at >= int64(refusalSpan) })
	return len(p.spent) < RefusalsAnHour
}

// Record records the outcome of a read.
func (r *Refusals) Record(port int, read Read, err error) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p, now := r.findOrAddPort(port), r.now()
	one := &p.reads[read]
	errno, refused := refusalErrno(err, one.answered)
	if !refused {
		one.row, one.answered = 0, one.answered || err == nil
		return
	}
	if !p.refused {
		p.refused, p.began = true, now
	}
	if one.isRefused() || now-p.began >= int64(refusalGrace) {
		p.spent = append(p.spent, now)
	}
	if one.errno != errno {
		one.row = 0
	}
	one.errno, one.row, one.at, one.retry = errno, one.row+1, now, false
}

var refusalErrnos = []unix.Errno{unix.EPERM, unix.EINVAL, unix.EOPNOTSUPP, unix.EIO}

// refusalErrno returns the errno with which firmware refused a read, and false if err is no refusal. EIO is no refusal if the
// device has answered the read before: such a device has failed, and may recover without an event.
func refusalErrno(err error, answered bool) (unix.Errno, bool) {
	for _, errno := range refusalErrnos {
		if errors.Is(err, errno) {
			return errno, errno != unix.EIO || !answered
		}
	}
	return 0, false
}

// IsRefusal reports whether err may be a refusal by firmware, rather than a missing answer.
func IsRefusal(err error) bool {
	_, refused := refusalErrno(err, false)
	return refused
}

// IsRestriction reports whether err says that the firmware refuses a query because the function is restricted. EIO does not: a device that
// failed before its first answer returns it, too.
func IsRestriction(err error) bool { return IsRefusal(err) && !errors.Is(err, unix.EIO) }

// IsRefusalStatus reports whether the Status of a Command may be a refusal, see IsRefusal.
func IsRefusalStatus(status string) bool {
	for _, errno := range refusalErrnos {
		if status == unix.ErrnoName(errno) {
			return true
		}
	}
	return false
}

// Retry allows each refused read of a port once more. The session calls it after an event. Port 0 stands for all ports.
func (r *Refusals) Retry(port int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for number, p := range r.ports {
		for i := range p.reads {
			p.reads[i].retry = p.reads[i].retry || p.reads[i].isRefused() && (port == 0 || port == number)
		}
	}
}

// InARow returns the number of refusals of a read of a port since its last answer.
func (r *Refusals) InARow(port int, read Read) int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.findOrAddPort(port).reads[read].row
}

// Refused reports whether the firmware refuses a read of a port.
func (r *Refusals) Refused(port int, read Read) bool { return r.InARow(port, read) >= RefusalRow }

// Text lists which of these reads of a port the firmware refuses, with the errno of each; "" if none.
func (r *Refusals) Text(port int, candidates ...Read) string {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, read := range candidates {
		if one := &r.findOrAddPort(port).reads[read]; one.isRefused() {
			all = append(all, fmt.Sprintf("%s (%s)", read, unix.ErrnoName(one.errno)))
		}
	}
	return strings.Join(all, ", ")
}

// ReadLimiter is an optional interface of a Device, for devices whose calls make several reads each.
type ReadLimiter interface {
	// LimitReads makes the device call Refusals.Allow before each read. It must be called before other methods.
	LimitReads(*Refusals)
}
