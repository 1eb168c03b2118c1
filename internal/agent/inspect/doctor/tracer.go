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
	// packagedTracer is the program of the tracer's package, and packagedCaps the list from which a script of the
	// package gives it capabilities.
	packagedTracer = "/usr/bin/" + tracerProgram
	packagedCaps   = "/etc/rdma-events/tracer.caps"
	// initialPIDNamespace is the initial PID namespace (PROC_PID_INIT_INO in include/linux/proc_ns.h).
	initialPIDNamespace = "pid:[4026531836]"
)

// Tracer is an opened tracer program.
type Tracer interface {
	// AskVersion runs the program and returns the version that the program reports.
	AskVersion(ctx context.Context) (string, error)
	// Try attaches the tracer to the kernel, ends it, and returns its output. It blocks for inspect.TracerTimeout at
	// most, and a moment longer if the process must be killed.
	Try(ctx context.Context) (string, error)
	// Close must be called after all other calls have returned.
	Close() error
}

// tracerFindings contains the facts about the tracer.
type tracerFindings struct {
	path        string
	openErr     error
	version     string
	versionErr  error
	caps        capabilities // capabilities of the file
	capsErr     error
	needs       capabilities
	trialOutput string // output of the trial
	trialErr    error
}

// examinesTracer reports whether the tracer is examined.
func (x *examination) examinesTracer() bool {
	return x.Applications || x.plugin.Events && !x.plugin.Simulated
}

// tryTracer tries whether the tracer program can attach to the kernel.
func (x *examination) tryTracer(ctx context.Context) {
	if !x.examinesTracer() {
		return
	}
	a := &tracerFindings{path: x.TracerPath, needs: newCapabilities(capBPF, capPerfmon)}
	x.tracer = a
	if x.plugin.TracerPath != "" {
		a.path = x.plugin.TracerPath
	}
	if x.perfEventParanoid() > maxParanoidForPerfmon {
		a.needs |= newCapabilities(capSysAdmin)
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
		a.trialOutput, a.trialErr = t.Try(ctx)
	}
}

// checkTracer runs the checks for events of applications, if the tracer is examined.
func checkTracer(x *examination) []Result {
	if x.tracer == nil {
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

// checkTracerProgram checks the program, its version and who may execute it.
func checkTracerProgram(x *examination) []Result {
	a := x.tracer
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
			r.Text += fmt.Sprintf(" (mode %04o, group %s)", info.Mode().Perm(), x.groupName(info))
		}
	case a.versionErr != nil:
		r.Status, r.Text = Fail, fmt.Sprintf("%s cannot be used: %s", a.path, oneLine(a.versionErr))
	case a.version != x.Version:
		r.Status, r.Text = Warn, fmt.Sprintf("%s has version %s, and this program %s", a.path, a.version, x.Version)
	case err == nil && info.Mode()&0o001 != 0:
		r.Status, r.Fix = Warn, x.giveCaps()
		r.Text = fmt.Sprintf("any user may execute %s (mode %04o), and so learn what the processes of other users do", a.path, info.Mode().Perm())
	default:
		r.Text, r.Fix = fmt.Sprintf("%s, version %s", a.path, a.version), advice.Line{}
	}
	return []Result{r}
}

// groupName returns the name of a file's group, or its number if the name is unknown.
func (x *examination) groupName(info fs.FileInfo) string {
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
	dir := filepath.Dir(x.tracer.path)
	return x.command(advice.InstallTracer, dir, x.tracer.needs.String())
}

// giveCaps returns the command that gives the file its group, mode and capabilities.
func (x *examination) giveCaps() advice.Line {
	a := x.tracer
	if x.isPackaged(a.path) {
		return x.command(advice.GivePackagedCapabilities, a.needs.String(), packagedCaps)
	}
	return x.command(advice.GiveCapabilities, a.path, a.needs.String())
}

// trustTracer returns the command that sets the owner of the file, and then does the same as giveCaps.
func (x *examination) trustTracer() advice.Line {
	a := x.tracer
	if x.isPackaged(a.path) {
		return x.command(advice.TrustPackagedTracer, a.path, a.needs.String(), packagedCaps)
	}
	return x.command(advice.TrustTracer, a.path, a.needs.String())
}

// isPackaged reports whether the file gets its capabilities from a script of the package.
func (x *examination) isPackaged(tracer string) bool {
	return tracer == packagedTracer && x.exists(inspect.Relative(packagedCaps))
}

// checkFileCapabilities checks that the file has the capabilities that every kernel requires.
func checkFileCapabilities(x *examination) []Result {
	a := x.tracer
	r := Result{Check: "file_capabilities"}
	needs := newCapabilities(capBPF, capPerfmon) // checkPerfParanoid checks CAP_SYS_ADMIN
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

// checkPrivilegeLimits checks for settings that deny Telegraf the capabilities of a file: no_new_privs and the bounding
// set of this process and of a running Telegraf, and Telegraf's unit.
func checkPrivilegeLimits(x *examination) []Result {
	r := Result{Check: "privilege_limits", Status: Fail}
	processes := x.findProcesses("telegraf")
	for _, p := range append([]string{"self"}, processes...) {
		name := "Telegraf (process " + p + ")"
		if p == "self" {
			name = "this process"
		}
		missing := x.tracer.needs &^ x.boundingSet(p)
		switch {
		case x.processStatus(p, "NoNewPrivs") == "1":
			r.Text, r.Fix = name+" has no_new_privs, so a program that it starts gets no capabilities of its file", x.allowPrivileges()
		case missing != 0:
			r.Text = fmt.Sprintf("the bounding set of %s lacks %s, so it cannot start a program whose file has that", name, missing)
			r.Fix = x.raiseLimit("CapabilityBoundingSet=" + strings.ToUpper(strings.ReplaceAll(missing.String(), ",", " ")))
		default:
			continue
		}
		if x.findContainer() != "" {
			r.Fix = x.containerCapabilities()
		}
		return []Result{r}
	}
	if len(processes) == 0 && x.unitForbidsPrivileges() {
		r.Text, r.Fix = "telegraf.service has NoNewPrivileges=yes, so the tracer gets no capabilities of its file", x.allowPrivileges()
		return []Result{r}
	}
	r.Status, r.Text = OK, "nothing takes a file's capabilities away from Telegraf"
	return []Result{r}
}

// allowPrivileges returns the command that changes a unit with NoNewPrivileges=yes. Other settings such as
// SystemCallFilter= may imply it (systemd.exec(5)); then the command only shows the unit.
func (x *examination) allowPrivileges() advice.Line {
	if x.unitForbidsPrivileges() {
		return x.raiseLimit("NoNewPrivileges=no")
	}
	return x.command(advice.ShowUnit)
}

func (x *examination) containerCapabilities() advice.Line {
	var flags []string
	for name := range strings.SplitSeq(x.tracer.needs.String(), ",") {
		flags = append(flags, "--cap-add="+strings.ToUpper(strings.TrimPrefix(name, "cap_")))
	}
	return x.command(advice.GiveContainerCapabilities, strings.Join(flags, " "))
}

// findProcesses returns the IDs of the processes with a name.
func (x *examination) findProcesses(name string) []string {
	return slices.DeleteFunc(x.list("proc"), func(pid string) bool {
		_, err := strconv.Atoi(pid)
		return err != nil || x.read("proc", pid, "comm") != name
	})
}

// processStatus returns a value of /proc/PID/status.
func (x *examination) processStatus(pid, key string) string {
	for line := range strings.Lines(x.read("proc", pid, "status")) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// boundingSet returns the bounding set of a process, or all capabilities if it is unknown.
func (x *examination) boundingSet(pid string) capabilities {
	set, err := strconv.ParseUint(x.processStatus(pid, "CapBnd"), 16, 64)
	if err != nil {
		return ^capabilities(0)
	}
	return capabilities(set)
}

// unitForbidsPrivileges reports whether Telegraf's unit and its drop-ins set NoNewPrivileges=yes.
func (x *examination) unitForbidsPrivileges() bool {
	const unit = "systemd/system/telegraf.service"
	files := map[string]string{} // by file name; the first directory with the file counts
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

// checkKernelTypes checks that the kernel and the module describe their types (BTF). The tracer's programs are adapted
// to these types when they are loaded.
func checkKernelTypes(x *examination) []Result {
	const btf = "sys/kernel/btf"
	r := Result{Check: "kernel_types", Text: "the kernel and ib_uverbs describe their types (BTF)"}
	switch {
	case !x.exists(btf, "vmlinux"):
		r.Status, r.Fix = Fail, x.command(advice.ShowKernelTypes, x.read("proc/sys/kernel/osrelease"))
		r.Text = "this kernel does not describe its types (CONFIG_DEBUG_INFO_BTF), so nothing can be attached to it; distributions' kernels do from 5.15 on"
	case x.exists(btf, "ib_uverbs"):
	case !x.exists("sys/module/ib_uverbs"):
		r.Status, r.Text, r.Fix = Warn, "ib_uverbs is not loaded, so there is nothing to trace", x.command(advice.LoadVerbs)
	default:
		r.Status, r.Fix = Fail, x.command(advice.ShowModuleFile)
		r.Text = "ib_uverbs does not describe its types: it was built separately from the kernel, like the modules of vendors; the kernel's own module does"
	}
	return []Result{r}
}

// checkLockdown reports the kernel's lockdown (kernel_lockdown(7)).
func checkLockdown(x *examination) []Result {
	r := Result{Check: "lockdown", Text: "lockdown does not keep programs from reading the kernel's memory"}
	if strings.Contains(x.read("sys/kernel/security/lockdown"), "[confidentiality]") {
		r.Status, r.Fix = Fail, x.command(advice.ShowLockdown)
		r.Text = "lockdown=confidentiality keeps programs from reading the kernel's memory; lockdown=integrity does not"
	}
	return []Result{r}
}

// maxParanoidForPerfmon is the highest kernel.perf_event_paranoid with which CAP_PERFMON is enough to attach kprobes.
// Debian and Ubuntu use higher values, which require CAP_SYS_ADMIN.
const maxParanoidForPerfmon = 2

// perfEventParanoid returns kernel.perf_event_paranoid, or 0 if it is unknown.
func (x *examination) perfEventParanoid() int {
	level, err := strconv.Atoi(x.read("proc/sys/kernel/perf_event_paranoid"))
	if err != nil {
		return 0
	}
	return level
}

func checkPerfParanoid(x *examination) []Result {
	r := Result{Check: "perf_paranoid"}
	switch level := x.perfEventParanoid(); {
	case level <= maxParanoidForPerfmon:
		r.Text = fmt.Sprintf("kernel.perf_event_paranoid is %d: CAP_BPF and CAP_PERFMON are enough", level)
	case x.tracer.openErr != nil || x.tracer.caps&newCapabilities(capSysAdmin) != 0:
		r.Text = fmt.Sprintf("kernel.perf_event_paranoid is %d: the tracer needs CAP_SYS_ADMIN too", level)
	default:
		r.Status, r.Fix = Fail, x.giveCaps()
		r.Text = fmt.Sprintf("kernel.perf_event_paranoid is %d, so the tracer needs CAP_SYS_ADMIN too, which %s lacks", level, x.tracer.path)
	}
	return []Result{r}
}

// checkUnprivilegedBPF reports who may use eBPF. It never fails, because the tracer gets its privileges from its file.
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

// checkPIDNamespace checks that this process sees the same process IDs as the kernel.
func checkPIDNamespace(x *examination) []Result {
	r := Result{Check: "pid_namespace", Text: "the host's own: this process sees the same process IDs as the kernel"}
	switch link, err := fs.ReadLink(x.Root, "proc/self/ns/pid"); {
	case err != nil:
		r.Status, r.Text = Skipped, withoutPath(err).Error()
	case link != initialPIDNamespace:
		r.Status, r.Fix = Warn, x.containerCapabilities()
		r.Text = "not the host's: hangs are not detected, and the end of a process is detected only when its queues are gone"
	}
	return []Result{r}
}

// checkTracerTrial reports the result of attaching to the kernel.
func checkTracerTrial(x *examination) []Result {
	a := x.tracer
	r := Result{Check: "tracer_trial"}
	first, missing, _ := strings.Cut(a.trialOutput, "\n")
	switch {
	case a.openErr != nil || a.versionErr != nil:
		r.Status, r.Text = Skipped, "there is no tracer that could be tried"
	case a.trialErr != nil && !x.exists("sys/class/infiniband_verbs"):
		r.Status, r.Text = Skipped, "ib_uverbs is not loaded, so there is nothing to attach to"
	case a.trialErr != nil:
		r.Status, r.Text, r.Fix = Fail, oneLine(a.trialErr), x.command(advice.TryTracer, a.path)
		if a.needs&^a.caps != 0 {
			r.Fix = x.giveCaps()
		}
	case missing != "":
		r.Status, r.Fix = Warn, x.command(advice.TryTracer, a.path)
		r.Text = first + "; " + strings.Join(strings.Split(missing, "\n"), "; ")
	default:
		r.Text = first
	}
	return []Result{r}
}
