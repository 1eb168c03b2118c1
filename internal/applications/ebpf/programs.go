package ebpf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"rdma_events/internal/applications/trace"
)

// coreDir is there as long as the module is loaded, and another directory when it is loaded again.
const coreDir = "sys/module/" + module

// Programs are programs that are loaded and attached. They see what happens until Close, or, if another process has inherited
// them, until the last such process ends: the kernel takes seconds to detach them, for which no process need wait.
type Programs struct {
	apps, queues, waits, others, boards, ring *ebpf.Map

	sights *link.Iter  // nil: hangs are not seen
	hooks  []io.Closer // kept open; none if they are inherited

	core      uint64 // host.core when they were attached
	hooked    trace.Attached
	mapMemory uint64 // bytes; not inherited
}

// maps returns the maps that the tracer reads.
func (p *Programs) maps() map[string]**ebpf.Map {
	return map[string]**ebpf.Map{
		traceMapApps: &p.apps, traceMapQueues: &p.queues, traceMapWaits: &p.waits, traceMapOthers: &p.others,
		traceMapBoards: &p.boards, traceMapRing: &p.ring,
	}
}

// Attached returns what the programs see.
func (p *Programs) Attached() trace.Attached { return p.hooked }

// MapMemory returns the bytes of the kernel's memory that all maps of the programs take, as the kernel says it; 0: it does not,
// or the programs are inherited.
func (p *Programs) MapMemory() uint64 { return p.mapMemory }

// LookupsNeedBPF reports whether this kernel refuses to read maps to a process without CAP_BPF. It tries.
func (p *Programs) LookupsNeedBPF() bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if unix.Capget(&header, &has[0]) != nil {
		return true
	}
	none := has
	none[0].Effective, none[1].Effective = 0, 0
	if unix.Capset(&header, &none[0]) != nil {
		return true
	}
	var b traceBoard
	err := p.boards.Lookup(uint32(0), &b)
	if unix.Capset(&header, &has[0]) != nil {
		// The thread is not used any more. What it lacks is lacked by the process that it would execute.
		return true
	}
	return errors.Is(err, unix.EPERM)
}

// Close detaches the programs. Those that are inherited stay attached until this process ends.
func (p *Programs) Close() error {
	errs := []error{closeTogether(p.hooks)}
	if p.sights != nil {
		errs = append(errs, p.sights.Close())
	}
	for _, m := range p.maps() {
		errs = append(errs, (*m).Close())
	}
	return errors.Join(errs...)
}

// inheritance is Programs as a text.
type inheritance struct {
	Maps    map[string]int `json:"maps"` // descriptors
	Sights  int            `json:"sights"`
	Hooks   []int          `json:"hooks"`
	Core    uint64         `json:"core"`
	Attach  string         `json:"attach"`
	Missing []string       `json:"missing"`
	LoadNs  int64          `json:"load_ns"`
}

// Inherit makes descriptors of the programs that a program inherits which this process executes next, and returns the text
// that Adopt needs there. The process should only execute it then.
func (p *Programs) Inherit() (string, error) {
	in := inheritance{
		Maps: map[string]int{}, Core: p.core, Attach: p.hooked.Hooks, Missing: p.hooked.Missing, LoadNs: int64(p.hooked.Load),
	}
	var err error
	for name, m := range p.maps() {
		if in.Maps[name], err = inheritable(*m); err != nil {
			return "", err
		}
	}
	for _, hook := range p.hooks {
		fd, err := inheritable(hook)
		if err != nil {
			return "", err
		}
		in.Hooks = append(in.Hooks, fd)
	}
	if p.sights != nil {
		if in.Sights, err = inheritable(p.sights); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(in)
	if err != nil {
		return "", fmt.Errorf("write what is inherited: %w", err)
	}
	return string(text), nil
}

// lowest is the lowest number of a descriptor that is inherited: those below are of package process.
const lowest = 10

// inheritable returns a copy of a descriptor that stays open in a program that is executed.
func inheritable(from any) (int, error) {
	has, ok := from.(interface{ FD() int })
	if !ok {
		return 0, fmt.Errorf("%w: an attachment of %T has no descriptor, as before Linux 5.15", trace.ErrUnsupported, from)
	}
	fd, err := unix.FcntlInt(uintptr(has.FD()), unix.F_DUPFD, lowest)
	if err != nil {
		return 0, fmt.Errorf("copy a descriptor of %T: %w", from, err)
	}
	return fd, nil
}

// Adopt returns the programs that Inherit has left to this process. It needs no privilege.
func Adopt(text string) (*Programs, error) {
	var in inheritance
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return nil, fmt.Errorf("read what is inherited: %w", err)
	}
	p := &Programs{core: in.Core, hooked: trace.Attached{Hooks: in.Attach, Missing: in.Missing, Load: time.Duration(in.LoadNs)}}
	for _, fd := range in.Hooks {
		unix.CloseOnExec(fd) // otherwise it stays open as long as this process
	}
	for name, to := range p.maps() {
		m, err := adoptMap(in.Maps[name])
		if err != nil {
			return nil, fmt.Errorf("adopt the map %s: %w", name, err)
		}
		*to = m
	}
	if in.Sights == 0 {
		return p, nil
	}
	unix.CloseOnExec(in.Sights)
	l, err := link.NewFromFD(in.Sights)
	if err != nil {
		return nil, fmt.Errorf("adopt the iterator: %w", err)
	}
	iter, ok := l.(*link.Iter)
	if !ok {
		return nil, fmt.Errorf("adopt the iterator: it is a %T", l)
	}
	p.sights = iter
	return p, nil
}

func adoptMap(fd int) (*ebpf.Map, error) {
	if fd < lowest {
		return nil, fmt.Errorf("descriptor %d is not one of Inherit", fd)
	}
	unix.CloseOnExec(fd)
	return ebpf.NewMapFromFD(fd)
}
