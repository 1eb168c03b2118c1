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

// ErrRefused is the error of a read that was not made because the firmware has refused it before.
var ErrRefused = errors.New("the firmware refuses it, and is asked again later")

// Limits of the reads that firmware refuses. Each is a line of the kernel log with mlx5.
const (
	// RefusalRow is how many identical refusals in a row make a read one that the firmware refuses.
	RefusalRow = 3
	// RefusalsAnHour is how many refused reads of a port are made in an hour at most, after the first
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

// Refusals limits the reads of a device that its firmware refuses, as that of restricted functions
// does. A read of a port that ended RefusalRow times in a row with the same refusal is made once an hour, and once
// after an event (Retry). All refused reads of a port together are at most RefusalsAnHour an hour, after the first
// minute. Its methods may be called concurrently; none blocks. A nil Refusals limits nothing.
type Refusals struct {
	now func() int64 // ns of a clock that is never set

	mu    sync.Mutex
	ports map[int]*refusingPort
}

// NewRefusals returns Refusals that go by now, in ns.
func NewRefusals(now func() int64) *Refusals {
	return &Refusals{now: now, ports: map[int]*refusingPort{}}
}

// refusingPort has what a port has refused. Times are of now.
type refusingPort struct {
	reads   [reads]refusedRead
	refused bool    // began is set
	began   int64   // when the first refusal came
	spent   []int64 // when refused reads were made, after the first minute
}

type refusedRead struct {
	errno    unix.Errno
	row      int   // identical refusals in a row
	at       int64 // of the last one
	answered bool  // the firmware has answered it
	retry    bool  // an event came since
}

func (r *refusedRead) refused() bool { return r.row >= RefusalRow }

func (r *Refusals) port(number int) *refusingPort {
	p := r.ports[number]
	if p == nil {
		p = &refusingPort{}
		r.ports[number] = p
	}
	return p
}

// Allow reports whether a read of a port may be made now. Its outcome is then to be passed to Note.
func (r *Refusals) Allow(port int, read Read) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p, now := r.port(port), r.now()
	one := &p.reads[read]
	switch {
	case one.refused():
		return (one.retry || now-one.at >= int64(refusalSpan)) && p.left(now)
	case one.answered || !p.refused || now-p.began < int64(refusalGrace):
		return true
	}
	return p.left(now)
}

// left reports whether another read may be refused now.
func (p *refusingPort) left(now int64) bool {
	p.spent = slices.DeleteFunc(p.spent, func(at int64) bool { return now-at >= int64(refusalSpan) })
	return len(p.spent) < RefusalsAnHour
}

// Note takes account of how a read has ended.
func (r *Refusals) Note(port int, read Read, err error) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p, now := r.port(port), r.now()
	one := &p.reads[read]
	errno, refused := refusal(err, one.answered)
	if !refused {
		one.row, one.answered = 0, one.answered || err == nil
		return
	}
	if !p.refused {
		p.refused, p.began = true, now
	}
	if one.refused() || now-p.began >= int64(refusalGrace) {
		p.spent = append(p.spent, now)
	}
	if one.errno != errno {
		one.row = 0
	}
	one.errno, one.row, one.at, one.retry = errno, one.row+1, now, false
}

var refusalErrnos = []unix.Errno{unix.EPERM, unix.EINVAL, unix.EOPNOTSUPP, unix.EIO}

// refusal returns the errno with which firmware has refused a read. EIO is no refusal by a device that
// has answered the read before: that one fails, and may recover without an event.
func refusal(err error, answered bool) (unix.Errno, bool) {
	for _, errno := range refusalErrnos {
		if errors.Is(err, errno) {
			return errno, errno != unix.EIO || !answered
		}
	}
	return 0, false
}

// IsRefusal reports whether firmware that answers may have refused a read with err.
func IsRefusal(err error) bool {
	_, refused := refusal(err, false)
	return refused
}

// IsRefusalStatus is IsRefusal for the Status of a Command.
func IsRefusalStatus(status string) bool {
	for _, errno := range refusalErrnos {
		if status == unix.ErrnoName(errno) {
			return true
		}
	}
	return false
}

// Retry allows each refused read of a port once more, of all ports if port is 0: an event came.
func (r *Refusals) Retry(port int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for number, p := range r.ports {
		for i := range p.reads {
			p.reads[i].retry = p.reads[i].retry || p.reads[i].refused() && (port == 0 || port == number)
		}
	}
}

// Row returns how many times in a row a read of a port was refused last.
func (r *Refusals) Row(port int, read Read) int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.port(port).reads[read].row
}

// Refused reports whether the firmware refuses a read of a port.
func (r *Refusals) Refused(port int, read Read) bool { return r.Row(port, read) >= RefusalRow }

// Text returns which reads of a port the firmware refuses, and how; "" if none.
func (r *Refusals) Text(port int, of ...Read) string {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, read := range of {
		if one := &r.port(port).reads[read]; one.refused() {
			all = append(all, fmt.Sprintf("%s (%s)", read, unix.ErrnoName(one.errno)))
		}
	}
	return strings.Join(all, ", ")
}

// RefusalUser is an interface that a Device may also implement: one of its calls makes several reads.
type RefusalUser interface {
	// LimitReads makes the device ask before each further read. It is to be called before other methods.
	LimitReads(*Refusals)
}
