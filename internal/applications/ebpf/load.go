package ebpf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"rdma_events/internal/applications/trace"
)

// module is the kernel's module that has all functions which are hooked.
const module = "ib_uverbs"

// Load loads the programs into the kernel and attaches them, with the capabilities that this thread is permitted. It needs
// CAP_BPF and CAP_PERFMON, and on hosts whose kernel.perf_event_paranoid is above 2 CAP_SYS_ADMIN (perf_event_open(2)). It
// takes tenths of a second, and waits for the kernel's verifier. The error is trace.ErrNoDevice,
// ErrPermission or ErrUnsupported, wrapped, or one of the kernel's.
func Load() (*Programs, error) { return LoadReporting(func(string) {}) }

// LoadReporting is Load, and reports each step before it begins.
func LoadReporting(report func(step string)) (*Programs, error) {
	began := time.Now()
	h := hostAt("/")
	if err := h.refusal(); err != nil {
		return nil, err
	}
	if err := raise(); err != nil {
		return nil, err
	}
	defer openToItself()()
	p := &Programs{core: h.core(), hooked: trace.Attached{Hooks: "kprobe"}}
	if err := p.load(report); err != nil {
		_ = p.Close() // the first error is the one to report
		return nil, h.explain(err)
	}
	p.hooked.Load = time.Since(began)
	return p, nil
}

func (p *Programs) load(report func(step string)) error {
	report("reading the kernel's types")
	spec, err := loadTrace()
	if err != nil {
		return fmt.Errorf("read the programs: %w", err)
	}
	if err := setTypes(spec); err != nil {
		return err
	}
	fitted, err := fit(spec)
	if err != nil {
		return err
	}
	report(fmt.Sprintf("loading %d programs", len(spec.Programs)))
	collection, err := ebpf.NewCollectionWithOptions(spec, fitted.opts)
	if err != nil {
		return fmt.Errorf("load the programs: %w", err)
	}
	// What is attached keeps its program, and that its maps.
	defer collection.Close()
	if p.mapMemory, err = memoryOf(collection.Maps); err != nil {
		return err
	}
	if err := p.attach(spec, collection, fitted, report); err != nil {
		return err
	}
	for name, to := range p.maps() {
		if *to, err = collection.Maps[name].Clone(); err != nil {
			return fmt.Errorf("keep the map %s: %w", name, err)
		}
	}
	return nil
}

// memoryOf returns the bytes of the kernel's memory that maps take, as the kernel says it.
func memoryOf(maps map[string]*ebpf.Map) (bytes uint64, err error) {
	for name, m := range maps {
		info, err := m.Info()
		if err != nil {
			return 0, fmt.Errorf("describe the map %s: %w", name, err)
		}
		locked, _ := info.Memlock() // 0 if the kernel does not say
		bytes += locked
	}
	return bytes, nil
}

// setTypes sets in the programs which events are counted, and which are errors.
func setTypes(spec *ebpf.CollectionSpec) error {
	var counted, errs uint32
	for _, typ := range trace.EventTypes() {
		counted |= 1 << typ
	}
	for _, typ := range trace.ErrorTypes() {
		errs |= 1 << typ
	}
	return errors.Join(spec.Variables["counted"].Set(counted), spec.Variables["errors"].Set(errs))
}

// fitted are the programs of a spec that fit a kernel.
type fitted struct {
	opts      ebpf.CollectionOptions
	functions map[string]string // of all programs, as in choose
	has       func(function string) bool
	programs  []string
}

// fit leaves out of spec what the kernel has no function for: it would refuse all.
func fit(spec *ebpf.CollectionSpec) (fitted, error) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return fitted{}, fmt.Errorf("%w: the kernel does not describe its types: %w", trace.ErrUnsupported, err)
	}
	verbs, err := btf.LoadKernelModuleSpec(module)
	if err != nil {
		return fitted{}, fmt.Errorf("%w: %s does not describe its types, as a module that was built apart from the kernel: %w",
			trace.ErrUnsupported, module, err)
	}
	f := fitted{functions: map[string]string{}, has: func(function string) bool {
		var f *btf.Func
		return verbs.TypeByName(function, &f) == nil
	}}
	for name, program := range spec.Programs {
		if f.functions[name] = program.AttachTo; program.Type == ebpf.Tracing {
			f.functions[name] = "" // the iterator
		}
	}
	c, err := choose(f.functions, f.has)
	if err != nil {
		return fitted{}, err
	}
	f.programs = c.programs
	chosen := map[string]*ebpf.ProgramSpec{}
	for _, name := range c.programs {
		chosen[name] = spec.Programs[name]
	}
	spec.Programs = chosen
	f.opts.Programs = ebpf.ProgramOptions{KernelTypes: kernel, ExtraRelocationTargets: []*btf.Spec{verbs}}
	return f, nil
}

// attach attaches the programs. The returns go first: a read whose begin was seen is then timed.
func (p *Programs) attach(spec *ebpf.CollectionSpec, c *ebpf.Collection, f fitted, report func(step string)) error {
	isReturn := func(name string) bool { return strings.HasPrefix(spec.Programs[name].SectionName, "kretprobe/") }
	slices.SortStableFunc(f.programs, func(a, b string) int {
		switch {
		case isReturn(a) == isReturn(b):
			return 0
		case isReturn(a):
			return -1
		}
		return 1
	})
	n := 0
	links, missing, err := attachAll(f, func(name string) (io.Closer, error) {
		n++
		report(fmt.Sprintf("attaching program %d of %d", n, len(f.programs)))
		switch s, program := spec.Programs[name], c.Programs[name]; {
		case s.Type == ebpf.Tracing:
			return link.AttachIter(link.IterOptions{Program: program})
		case isReturn(name):
			return link.Kretprobe(s.AttachTo, program, nil)
		default:
			return link.Kprobe(s.AttachTo, program, nil)
		}
	})
	p.hooked.Missing = missing
	for _, l := range links {
		if iter, ok := l.(*link.Iter); ok {
			p.sights = iter
			continue
		}
		p.hooks = append(p.hooks, l)
	}
	return err
}

// host has the files that say what this kernel allows; root is "/" but in tests.
type host struct{ root string }

func hostAt(root string) host { return host{root: root} }

func (h host) read(path string) string {
	text, err := os.ReadFile(filepath.Join(h.root, path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// refusal returns why nothing can be attached to this kernel, as far as can be known before.
func (h host) refusal() error {
	if _, err := os.Stat(filepath.Join(h.root, coreDir)); err != nil {
		return fmt.Errorf("%w: the module %s is not loaded", trace.ErrNoDevice, module)
	}
	if strings.Contains(h.read("sys/kernel/security/lockdown"), "[confidentiality]") {
		return fmt.Errorf("%w: lockdown=confidentiality forbids programs to read the kernel's memory", trace.ErrUnsupported)
	}
	return nil
}

// core returns what differs between this load of the module and the next.
func (h host) core() uint64 {
	var st unix.Stat_t
	if unix.Stat(filepath.Join(h.root, coreDir), &st) != nil {
		return 0
	}
	return st.Ino
}

// numbersAreOurs reports whether the kernel's numbers of processes are those of this process, which they are in the initial
// PID namespace alone (PROC_PID_INIT_INO in include/linux/proc_ns.h).
func (h host) numbersAreOurs() bool {
	link, err := os.Readlink(filepath.Join(h.root, "proc/self/ns/pid"))
	return err == nil && link == "pid:[4026531836]"
}

// explain makes an error of the kernel one of package trace, with what to do.
func (h host) explain(err error) error {
	var refused *ebpf.VerifierError
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("%w: %s", trace.ErrUnsupported, firstLine(err))
	case !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES):
		return err
	}
	needs := "CAP_BPF and CAP_PERFMON"
	if level := h.read("proc/sys/kernel/perf_event_paranoid"); len(level) == 1 && level > "2" {
		needs = "CAP_BPF, CAP_PERFMON and, since kernel.perf_event_paranoid is " + level + ", CAP_SYS_ADMIN"
	}
	return fmt.Errorf("%w: it takes %s (setcap, as the package does): %s", trace.ErrPermission, needs, firstLine(err))
}

// firstLine returns an error without the verifier's log.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
