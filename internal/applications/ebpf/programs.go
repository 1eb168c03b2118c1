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

// coreDir exists while the module is loaded. It is another directory when the module is loaded again.
const coreDir = "sys/module/" + module

// Programs are loaded and attached eBPF programs. They stay attached until Close, or, if other processes have inherited them, until the
// last such process ends. Then no process has to wait for the kernel, which takes seconds to detach them.
type Programs struct {
	apps, queues, waits, others, reads, numbers, boards, ring *ebpf.Map

	threadIter *link.Iter  // nil: hangs are not observed
	hooks      []io.Closer // the attachments; nil if they are inherited

	moduleID   uint64 // result of host.moduleID at the time of attachment
	attachment trace.Attached
	mapMemory  uint64 // bytes; not inherited
}

// maps returns the maps that the tracer reads.
func (p *Programs) maps() map[string]**ebpf.Map {
	return map[string]**ebpf.Map{
		traceMapApps: &p.apps, traceMapQueues: &p.queues, traceMapWaits: &p.waits, traceMapOthers: &p.others,
		traceMapReads: &p.reads, traceMapNumbers: &p.numbers, traceMapBoards: &p.boards, traceMapRing: &p.ring,
	}
}

// Attached describes what the programs observe.
func (p *Programs) Attached() trace.Attached { return p.attachment }

// MapMemory returns the size of all maps of the programs in bytes, as reported by the kernel. It returns 0 if the kernel does not report it
// or if the programs are inherited.
func (p *Programs) MapMemory() uint64 { return p.mapMemory }

// LookupsNeedBPF reports whether this kernel refuses map lookups without CAP_BPF. It tries a lookup without the capability.
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
		// The thread has lost the capability, and so would the program that it executes.
		return true
	}
	return errors.Is(err, unix.EPERM)
}

// Close detaches the programs. Inherited programs stay attached until this process ends.
func (p *Programs) Close() error {
	errs := []error{closeTogether(p.hooks)}
	if p.threadIter != nil {
		errs = append(errs, p.threadIter.Close())
	}
	for _, m := range p.maps() {
		errs = append(errs, (*m).Close())
	}
	return errors.Join(errs...)
}

// inheritance is the encoded form of Programs.
type inheritance struct {
	Maps    map[string]int `json:"maps"` // descriptors
	Sights  int            `json:"sights"`
	Hooks   []int          `json:"hooks"`
	Core    uint64         `json:"core"`
	Attach  string         `json:"attach"`
	Missing []string       `json:"missing"`
	LoadNs  int64          `json:"load_ns"`
}

// Inherit creates descriptors of the programs that the next program executed by this process inherits. It returns the text that Adopt needs
// in that program. After Inherit, the process should do nothing but execute the program.
func (p *Programs) Inherit() (string, error) {
	in := inheritance{
		Maps: map[string]int{}, Core: p.moduleID, Attach: p.attachment.Hooks, Missing: p.attachment.Missing, LoadNs: int64(p.attachment.Load),
	}
	var err error
	for name, m := range p.maps() {
		if in.Maps[name], err = inheritableFD(*m); err != nil {
			return "", err
		}
	}
	for _, hook := range p.hooks {
		fd, err := inheritableFD(hook)
		if err != nil {
			return "", err
		}
		in.Hooks = append(in.Hooks, fd)
	}
	if p.threadIter != nil {
		if in.Sights, err = inheritableFD(p.threadIter); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(in)
	if err != nil {
		return "", fmt.Errorf("write what is inherited: %w", err)
	}
	return string(text), nil
}

// minInherited is the lowest number of an inherited descriptor. Package process uses the numbers below.
const minInherited = 10

// inheritableFD returns a copy of a descriptor that is not closed on exec.
func inheritableFD(from any) (int, error) {
	has, ok := from.(interface{ FD() int })
	if !ok {
		return 0, fmt.Errorf("%w: an attachment of %T has no descriptor, as before Linux 5.15", trace.ErrUnsupported, from)
	}
	fd, err := unix.FcntlInt(uintptr(has.FD()), unix.F_DUPFD, minInherited)
	if err != nil {
		return 0, fmt.Errorf("copy a descriptor of %T: %w", from, err)
	}
	return fd, nil
}

// Adopt returns the programs that this process has inherited. text is the result of Inherit. Adopt needs no privilege.
func Adopt(text string) (*Programs, error) {
	var in inheritance
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return nil, fmt.Errorf("read what is inherited: %w", err)
	}
	p := &Programs{moduleID: in.Core, attachment: trace.Attached{Hooks: in.Attach, Missing: in.Missing, Load: time.Duration(in.LoadNs)}}
	for _, fd := range in.Hooks {
		unix.CloseOnExec(fd) // a program that this process executes must not inherit it again
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
	p.threadIter = iter
	return p, nil
}

func adoptMap(fd int) (*ebpf.Map, error) {
	if fd < minInherited {
		return nil, fmt.Errorf("descriptor %d is not one of Inherit", fd)
	}
	unix.CloseOnExec(fd)
	return ebpf.NewMapFromFD(fd)
}
