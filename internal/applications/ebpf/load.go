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

// module is the kernel module that has all hooked functions.
const module = "ib_uverbs"

// Load loads the programs into the kernel and attaches them. It uses the permitted capabilities of this thread. It needs CAP_BPF and
// CAP_PERFMON, and also CAP_SYS_ADMIN on hosts with kernel.perf_event_paranoid above 2 (perf_event_open(2)). It takes tenths of a second,
// and waits for the kernel's verifier. Its error wraps trace.ErrNoDevice, ErrPermission or ErrUnsupported, or is an error of the kernel.
func Load() (*Programs, error) { return LoadReporting(func(string) {}) }

// LoadReporting is like Load, and calls report before each step.
func LoadReporting(report func(step string)) (*Programs, error) {
	began := time.Now()
	h := hostAt("/")
	if err := h.checkSupport(); err != nil {
		return nil, err
	}
	if err := raiseCapabilities(); err != nil {
		return nil, err
	}
	defer makeProcReadable()()
	p := &Programs{moduleID: h.moduleID(), attachment: trace.Attached{Hooks: "kprobe"}}
	if err := p.load(report); err != nil {
		_ = p.Close() // the first error is the one to report
		return nil, h.explainError(err)
	}
	p.attachment.Load = time.Since(began)
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
	fitted, err := selectPrograms(spec)
	if err != nil {
		return err
	}
	report(fmt.Sprintf("loading %d programs", len(spec.Programs)))
	collection, err := ebpf.NewCollectionWithOptions(spec, fitted.opts)
	if err != nil {
		return fmt.Errorf("load the programs: %w", err)
	}
	// An attachment keeps its program loaded, and a program keeps its maps.
	defer collection.Close()
	if p.mapMemory, err = memoryUsed(collection.Maps); err != nil {
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

// memoryUsed returns the size of maps in bytes, as reported by the kernel.
func memoryUsed(maps map[string]*ebpf.Map) (bytes uint64, err error) {
	for name, m := range maps {
		info, err := m.Info()
		if err != nil {
			return 0, fmt.Errorf("describe the map %s: %w", name, err)
		}
		locked, _ := info.Memlock() // 0 if the kernel does not report it
		bytes += locked
	}
	return bytes, nil
}

// setTypes tells the programs which event types are counted and which are errors.
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

// fitted has the programs of a spec that a kernel supports.
type fitted struct {
	opts      ebpf.CollectionOptions
	functions map[string]string // the function of every program, as in choosePrograms
	has       func(function string) bool
	programs  []string
}

// selectPrograms removes from spec the programs whose functions the kernel lacks, because the kernel would otherwise refuse all of them.
func selectPrograms(spec *ebpf.CollectionSpec) (fitted, error) {
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
	c, err := choosePrograms(f.functions, f.has)
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

// attach attaches the programs, return probes first, so that the return of every observed read is observed too.
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
	p.attachment.Missing = missing
	for _, l := range links {
		if iter, ok := l.(*link.Iter); ok {
			p.threadIter = iter
			continue
		}
		p.hooks = append(p.hooks, l)
	}
	return err
}

// host reads files that describe what this kernel allows. root is "/" except in tests.
type host struct{ root string }

func hostAt(root string) host { return host{root: root} }

func (h host) readFile(path string) string {
	text, err := os.ReadFile(filepath.Join(h.root, path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// checkSupport returns an error if it is known in advance that nothing can be attached to this kernel.
func (h host) checkSupport() error {
	if _, err := os.Stat(filepath.Join(h.root, coreDir)); err != nil {
		return fmt.Errorf("%w: the module %s is not loaded", trace.ErrNoDevice, module)
	}
	if strings.Contains(h.readFile("sys/kernel/security/lockdown"), "[confidentiality]") {
		return fmt.Errorf("%w: lockdown=confidentiality forbids programs to read the kernel's memory", trace.ErrUnsupported)
	}
	return nil
}

// moduleID returns a number that identifies this load of the module: the inode of its directory. It returns 0 if the module is not loaded.
func (h host) moduleID() uint64 {
	var st unix.Stat_t
	if unix.Stat(filepath.Join(h.root, coreDir), &st) != nil {
		return 0
	}
	return st.Ino
}

// inInitialPIDNamespace reports whether this process is in the initial PID namespace (PROC_PID_INIT_INO in include/linux/proc_ns.h). Only
// then are the kernel's process numbers valid for this process.
func (h host) inInitialPIDNamespace() bool {
	link, err := os.Readlink(filepath.Join(h.root, "proc/self/ns/pid"))
	return err == nil && link == "pid:[4026531836]"
}

// explainError converts an error of the kernel to one of package trace, and adds advice.
func (h host) explainError(err error) error {
	var refused *ebpf.VerifierError
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("%w: %s", trace.ErrUnsupported, firstLine(err))
	case !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES):
		return err
	}
	needs := "CAP_BPF and CAP_PERFMON"
	if level := h.readFile("proc/sys/kernel/perf_event_paranoid"); len(level) == 1 && level > "2" {
		needs = "CAP_BPF, CAP_PERFMON and, since kernel.perf_event_paranoid is " + level + ", CAP_SYS_ADMIN"
	}
	return fmt.Errorf("%w: it takes %s (setcap, as the package does): %s", trace.ErrPermission, needs, firstLine(err))
}

// firstLine returns an error without the verifier's log.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
