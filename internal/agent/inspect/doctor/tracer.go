package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/sys/status"
)

const (
	tracerProgram = "rdma-events-tracer"
	// The files of the tracer's package: the program, and the list from which a script of the package gives it capabilities.
	packagedTracer = "/usr/bin/" + tracerProgram
	packagedCaps   = "/etc/rdma-events/tracer.caps"
	// initialPIDs is the initial PID namespace (PROC_PID_INIT_INO in include/linux/proc_ns.h).
	initialPIDs = "pid:[4026531836]"
)

// Tracer is an opened tracer program.
type Tracer interface {
	// AskVersion runs the program and returns the version that the program reports.
	AskVersion(ctx context.Context) (string, error)
	// Try attaches to the kernel and ends, and returns what the program has printed. It blocks for inspect.TracerLimit at most, and
	// a moment longer if the process has to be killed.
	Try(ctx context.Context) (string, error)
	// Close must be called after all other calls have returned.
	Close() error
}

// tracing is what was found out about the tracer.
type tracing struct {
	path       string
	openErr    error
	version    string
	versionErr error
	caps       capabilities // of the file
	capsErr    error
	needs      capabilities
	said       string // by the trial
	sayErr     error
}

// traces reports whether the events of applications are examined.
func (x *examination) traces() bool { return x.Applications || x.plugin.Events && !x.plugin.Simulated }

// tryTracer finds out whether the tracer program can attach to the kernel.
func (x *examination) tryTracer(ctx context.Context) {
	if !x.traces() {
		return
	}
	a := &tracing{path: x.TracerPath, needs: setOf(capBPF, capPerfmon)}
	x.tracing = a
	if x.plugin.TracerPath != "" {
		a.path = x.plugin.TracerPath
	}
	if x.paranoia() > perfmonEnough {
		a.needs |= setOf(capSysAdmin)
	}
	var t Tracer
	if t, a.openErr = x.OpenTracer(a.path); a.openErr != nil {
		return
	}
	defer t.Close()
	var raw []byte
	if raw, a.capsErr = x.FileCaps(a.path); a.capsErr == nil {
		a.caps, a.capsErr = decodeFileCaps(raw)
	}
	if a.version, a.versionErr = t.AskVersion(ctx); a.versionErr == nil {
		a.said, a.sayErr = t.Try(ctx)
	}
}

// checkTracer examines what events of applications need, if they are examined.
func checkTracer(x *examination) []Result {
	if x.tracing == nil {
		return nil
	}
	var all []Result
	for _, c := range []check{
		checkTracerProgram, checkFileCapabilities, checkPrivilegeLimits, checkKernelTypes, checkLockdown, checkPerfParanoid,
		checkUnprivilegedBPF, checkPIDNamespace, checkTracerTrial,
	} {
		all = append(all, c(x)...)
	}
	return all
}

// checkTracerProgram reports the program, its version and who may execute it.
func checkTracerProgram(x *examination) []Result {
	a := x.tracing
	r := Result{Check: "tracer_program", Fix: x.installTracer()}
	info, err := fs.Stat(x.Root, inspect.Relative(a.path))
	switch {
	case a.openErr != nil:
		r.Status, r.Text = Fail, oneLine(a.openErr)
		if errors.Is(a.openErr, status.ErrUntrusted) {
			r.Fix = x.trustTracer()
		}
	case errors.Is(a.versionErr, unix.EACCES):
		r.Status, r.Fix = Fail, x.giveCaps()
		r.Text = fmt.Sprintf("user %d may not execute %s", x.UID, a.path)
		if err == nil {
			r.Text += fmt.Sprintf(" (mode %04o, group %s)", info.Mode().Perm(), x.group(info))
		}
	case a.versionErr != nil:
		r.Status, r.Text = Fail, fmt.Sprintf("%s cannot be used: %s", a.path, oneLine(a.versionErr))
	case a.version != x.Version:
		r.Status, r.Text = Warn, fmt.Sprintf("%s has version %s, and this program %s", a.path, a.version, x.Version)
	case err == nil && info.Mode()&0o001 != 0:
		r.Status, r.Fix = Warn, x.giveCaps()
		r.Text = fmt.Sprintf("any user may execute %s (mode %04o), and can learn what the processes of others do", a.path, info.Mode().Perm())
	default:
		r.Text, r.Fix = fmt.Sprintf("%s, version %s", a.path, a.version), advice.Line{}
	}
	return []Result{r}
}

// group returns the name of a file's group, or its number.
func (x *examination) group(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "unknown"
	}
	gid := strconv.FormatUint(uint64(st.Gid), 10)
	for line := range strings.Lines(x.read("etc/group")) {
		if f := strings.Split(line, ":"); len(f) > 2 && f[2] == gid {
			return f[0]
		}
	}
	return gid
}

func (x *examination) installTracer() advice.Line {
	dir := filepath.Dir(x.tracing.path)
	return x.line(advice.InstallTracer, dir, x.tracing.needs.String())
}

// giveCaps returns the command that gives the file its group, mode and capabilities.
func (x *examination) giveCaps() advice.Line {
	a := x.tracing
	if x.isPackaged(a.path) {
		return x.line(advice.GivePackagedCapabilities, a.needs.String(), packagedCaps)
	}
	return x.line(advice.GiveCapabilities, a.path, a.needs.String())
}

// trustTracer returns the command that gives the file its owner, and then what giveCaps gives it.
func (x *examination) trustTracer() advice.Line {
	a := x.tracing
	if x.isPackaged(a.path) {
		return x.line(advice.TrustPackagedTracer, a.path, a.needs.String(), packagedCaps)
	}
	return x.line(advice.TrustTracer, a.path, a.needs.String())
}

// isPackaged reports whether a script of the package gives the file its capabilities.
func (x *examination) isPackaged(tracer string) bool {
	return tracer == packagedTracer && x.exists(inspect.Relative(packagedCaps))
}

// checkFileCapabilities reports whether the file has the capabilities that all kernels ask for.
func checkFileCapabilities(x *examination) []Result {
	a := x.tracing
	r := Result{Check: "file_capabilities"}
	needs := setOf(capBPF, capPerfmon) // checkPerfParanoid has the third
	switch missing := needs &^ a.caps; {
	case a.openErr != nil:
		r.Status, r.Text = Skipped, "there is no tracer"
	case a.capsErr != nil:
		r.Status, r.Text, r.Fix = Warn, oneLine(a.capsErr), x.giveCaps()
	case missing != 0:
		r.Status, r.Fix = Fail, x.giveCaps()
		r.Text = fmt.Sprintf("%s lacks %s", a.path, missing)
	default:
		r.Text = fmt.Sprintf("%s has %s", a.path, a.caps)
	}
	return []Result{r}
}

// checkPrivilegeLimits reports what takes a file's capabilities away from Telegraf: no_new_privs and the bounding set, of this
// process and of a running Telegraf, and Telegraf's unit.
func checkPrivilegeLimits(x *examination) []Result {
	r := Result{Check: "privilege_limits", Status: Fail}
	processes := x.processesOf("telegraf")
	for _, p := range append([]string{"self"}, processes...) {
		name := "Telegraf (process " + p + ")"
		if p == "self" {
			name = "this process"
		}
		missing := x.tracing.needs &^ x.boundingSet(p)
		switch {
		case x.statusOf(p, "NoNewPrivs") == "1":
			r.Text, r.Fix = name+" has no_new_privs, so a program that it starts gets no capabilities of its file", x.allowPrivileges()
		case missing != 0:
			r.Text = fmt.Sprintf("the bounding set of %s lacks %s, so it cannot start a program whose file has that", name, missing)
			r.Fix = x.raise("CapabilityBoundingSet=" + strings.ToUpper(strings.ReplaceAll(missing.String(), ",", " ")))
		default:
			continue
		}
		if x.container() != "" {
			r.Fix = x.containerFix()
		}
		return []Result{r}
	}
	if len(processes) == 0 && x.unitForbids() {
		r.Text, r.Fix = "telegraf.service has NoNewPrivileges=yes, so the tracer gets no capabilities of its file", x.allowPrivileges()
		return []Result{r}
	}
	r.Status, r.Text = OK, "nothing takes a file's capabilities away from Telegraf"
	return []Result{r}
}

// allowPrivileges returns the command for a unit with NoNewPrivileges=yes. Other settings imply it, as SystemCallFilter= does
// (systemd.exec(5)); then the command shows the unit.
func (x *examination) allowPrivileges() advice.Line {
	if x.unitForbids() {
		return x.raise("NoNewPrivileges=no")
	}
	return x.line(advice.ShowUnit)
}

func (x *examination) containerFix() advice.Line {
	var flags []string
	for name := range strings.SplitSeq(x.tracing.needs.String(), ",") {
		flags = append(flags, "--cap-add="+strings.ToUpper(strings.TrimPrefix(name, "cap_")))
	}
	return x.line(advice.GiveContainerCapabilities, strings.Join(flags, " "))
}

// processesOf returns the numbers of the processes of a name.
func (x *examination) processesOf(name string) []string {
	return slices.DeleteFunc(x.list("proc"), func(pid string) bool {
		_, err := strconv.Atoi(pid)
		return err != nil || x.read("proc", pid, "comm") != name
	})
}

// statusOf returns a value of /proc/PID/status.
func (x *examination) statusOf(pid, key string) string {
	for line := range strings.Lines(x.read("proc", pid, "status")) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// boundingSet returns the bounding set of a process, all capabilities if it is not known.
func (x *examination) boundingSet(pid string) capabilities {
	set, err := strconv.ParseUint(x.statusOf(pid, "CapBnd"), 16, 64)
	if err != nil {
		return ^capabilities(0)
	}
	return capabilities(set)
}

// unitForbids reports whether Telegraf's unit and its drop-ins say NoNewPrivileges=yes.
func (x *examination) unitForbids() bool {
	const unit = "systemd/system/telegraf.service"
	files := map[string]string{} // by name: the first directory has a file
	for _, dir := range []string{"etc", "run", "usr/lib", "lib"} {
		for _, name := range x.list(dir, unit+".d") {
			if strings.HasSuffix(name, ".conf") && files[name] == "" {
				files[name] = path.Join(dir, unit+".d", name)
			}
		}
		if files[""] == "" && x.exists(dir, unit) {
			files[""] = path.Join(dir, unit)
		}
	}
	forbids := false
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for line := range strings.Lines(x.read(files[name])) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "NoNewPrivileges="); ok {
				forbids = slices.Contains([]string{"yes", "true", "on", "1"}, strings.ToLower(strings.TrimSpace(value)))
			}
		}
	}
	return forbids
}

// checkKernelTypes reports whether kernel and module describe their types (BTF), by which the tracer's programs are fitted to
// them.
func checkKernelTypes(x *examination) []Result {
	const btf = "sys/kernel/btf"
	r := Result{Check: "kernel_types", Text: "the kernel and ib_uverbs describe their types (BTF)"}
	switch {
	case !x.exists(btf, "vmlinux"):
		r.Status, r.Fix = Fail, x.line(advice.ShowKernelTypes, x.read("proc/sys/kernel/osrelease"))
		r.Text = "this kernel does not describe its types (CONFIG_DEBUG_INFO_BTF), so nothing can be attached to it; distributions' kernels do from 5.15 on"
	case x.exists(btf, "ib_uverbs"):
	case !x.exists("sys/module/ib_uverbs"):
		r.Status, r.Text, r.Fix = Warn, "ib_uverbs is not loaded, so there is nothing to trace", x.line(advice.LoadVerbs)
	default:
		r.Status, r.Fix = Fail, x.line(advice.ShowModuleFile)
		r.Text = "ib_uverbs does not describe its types: it was built apart from the kernel, as a vendor's; the kernel's own does"
	}
	return []Result{r}
}

// checkLockdown reports the kernel's lockdown (kernel_lockdown(7)).
func checkLockdown(x *examination) []Result {
	r := Result{Check: "lockdown", Text: "lockdown does not keep programs from reading the kernel's memory"}
	if strings.Contains(x.read("sys/kernel/security/lockdown"), "[confidentiality]") {
		r.Status, r.Fix = Fail, x.line(advice.ShowLockdown)
		r.Text = "lockdown=confidentiality keeps programs from reading the kernel's memory; lockdown=integrity does not"
	}
	return []Result{r}
}

// perfmonEnough is the highest kernel.perf_event_paranoid with which CAP_PERFMON is enough to attach kprobes. Debian and Ubuntu
// have higher ones, which ask for CAP_SYS_ADMIN.
const perfmonEnough = 2

// paranoia returns kernel.perf_event_paranoid, 0 if it is not known.
func (x *examination) paranoia() int {
	level, err := strconv.Atoi(x.read("proc/sys/kernel/perf_event_paranoid"))
	if err != nil {
		return 0
	}
	return level
}

func checkPerfParanoid(x *examination) []Result {
	r := Result{Check: "perf_paranoid"}
	switch level := x.paranoia(); {
	case level <= perfmonEnough:
		r.Text = fmt.Sprintf("kernel.perf_event_paranoid is %d: CAP_BPF and CAP_PERFMON are enough", level)
	case x.tracing.openErr != nil || x.tracing.caps&setOf(capSysAdmin) != 0:
		r.Text = fmt.Sprintf("kernel.perf_event_paranoid is %d: it takes CAP_SYS_ADMIN too", level)
	default:
		r.Status, r.Fix = Fail, x.giveCaps()
		r.Text = fmt.Sprintf("kernel.perf_event_paranoid is %d, so it takes CAP_SYS_ADMIN too, which %s lacks", level, x.tracing.path)
	}
	return []Result{r}
}

// checkUnprivilegedBPF reports who may use eBPF. It is a note: the tracer has what it needs by its file.
func checkUnprivilegedBPF(x *examination) []Result {
	r := Result{Check: "unprivileged_bpf"}
	switch level := x.read("proc/sys/kernel/unprivileged_bpf_disabled"); level {
	case "":
		r.Status, r.Text = Skipped, "this kernel has no kernel.unprivileged_bpf_disabled"
	case "0":
		r.Text = "kernel.unprivileged_bpf_disabled is 0: the tracer keeps no capability; any user may load programs"
	default:
		r.Text = "kernel.unprivileged_bpf_disabled is " + level + ": before Linux 5.19 the tracer keeps CAP_BPF, to read its maps"
	}
	return []Result{r}
}

// checkPIDNamespace reports whether the numbers of processes are those of the kernel.
func checkPIDNamespace(x *examination) []Result {
	r := Result{Check: "pid_namespace", Text: "the host's own: the kernel's numbers of processes are those that this one sees"}
	switch link, err := fs.ReadLink(x.Root, "proc/self/ns/pid"); {
	case err != nil:
		r.Status, r.Text = Skipped, bare(err).Error()
	case link != initialPIDs:
		r.Status, r.Fix = Warn, x.containerFix()
		r.Text = "not the host's: hangs are not seen, and the end of a process only when its queues are gone"
	}
	return []Result{r}
}

// checkTracerTrial reports what came of attaching to the kernel.
func checkTracerTrial(x *examination) []Result {
	a := x.tracing
	r := Result{Check: "tracer_trial"}
	first, missing, _ := strings.Cut(a.said, "\n")
	switch {
	case a.openErr != nil || a.versionErr != nil:
		r.Status, r.Text = Skipped, "there is no tracer that could be tried"
	case a.sayErr != nil:
		r.Status, r.Text, r.Fix = Fail, oneLine(a.sayErr), x.line(advice.TryTracer, a.path)
		if a.needs&^a.caps != 0 {
			r.Fix = x.giveCaps()
		}
	case missing != "":
		r.Status, r.Fix = Warn, x.line(advice.TryTracer, a.path)
		r.Text = first + "; " + strings.Join(strings.Split(missing, "\n"), "; ")
	default:
		r.Text = first
	}
	return []Result{r}
}
