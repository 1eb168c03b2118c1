package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/sys/status"
)

// fakeTracer returns the answers that the test has set.
type fakeTracer struct {
	version, said      string
	versionErr, tryErr error
	closed             bool
}

func (f *fakeTracer) AskVersion(context.Context) (string, error) { return f.version, f.versionErr }
func (f *fakeTracer) Try(context.Context) (string, error)        { return f.said, f.tryErr }
func (f *fakeTracer) Close() error {
	f.closed = true
	return nil
}

const (
	allCaps = "000001ffffffffff"
	trial   = "attached by kprobe in 1.2s"
)

// traceableTree returns the files of the healthy host with the tracer's package, on a Red Hat kernel.
func traceableTree() tree {
	return healthyTree().with(tree{
		"usr/bin/rdma-events-tracer":                "ELF",
		"etc/rdma-events/tracer.caps":               "cap_bpf,cap_perfmon=ep\n",
		"proc/self/status":                          "NoNewPrivs:\t0\nCapEff:\t0000000000000000\nCapBnd:\t" + allCaps + "\n",
		"proc/self/ns/pid":                          "-> " + initialPIDNamespace,
		"proc/812/comm":                             "telegraf\n",
		"proc/812/status":                           "NoNewPrivs:\t0\nCapBnd:\t" + allCaps + "\n",
		"proc/sys/kernel/perf_event_paranoid":       "2\n",
		"proc/sys/kernel/unprivileged_bpf_disabled": "2\n",
		"sys/kernel/btf/vmlinux":                    "BTF",
		"sys/kernel/btf/ib_uverbs":                  "BTF",
		"sys/kernel/security/lockdown":              "[none] integrity confidentiality\n",
		"sys/module/ib_uverbs/initstate":            "live\n",
		"etc/systemd/system/telegraf.service":       "[Service]\nUser=telegraf\n",
	})
}

// capabilityAttribute returns the extended attribute of a file with the given capabilities.
func capabilityAttribute(set capabilities) []byte {
	const flags = 2<<24 | 1 // revision 2, effective at once
	var raw []byte
	for _, word := range []uint32{flags, uint32(set & 0xffffffff), 0, uint32(set >> 32), 0} {
		raw = binary.LittleEndian.AppendUint32(raw, word)
	}
	return raw
}

// traceableHost returns a host over a tree. Its tracer has the given capabilities and the file mode of the package.
func traceableHost(t *testing.T, files tree, f *fakeTracer, caps capabilities) *System {
	t.Helper()
	s := newHost(t, files, workingWorker())
	s.Applications, s.TracerPath = true, packagedTracer
	s.OpenTracer = func(string) (Tracer, error) { return f, nil }
	s.FileCaps = func(string) ([]byte, error) { return capabilityAttribute(caps), nil }
	root := s.Root
	s.Root = modeFS{root.(fs.ReadLinkFS)}
	return s
}

// modeFS is a file system that shows programs with a mode for their group only, because tests cannot create files that
// all users may execute.
type modeFS struct{ fs.ReadLinkFS }

func (m modeFS) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(m.ReadLinkFS, name)
	if err == nil && name == inspect.Relative(packagedTracer) {
		info = modeInfo{info}
	}
	return info, err
}

type modeInfo struct{ fs.FileInfo }

func (m modeInfo) Mode() fs.FileMode { return m.FileInfo.Mode() &^ 0o007 }

func workingTracer() *fakeTracer { return &fakeTracer{version: "1.2.3", said: trial} }

func neededCapabilities() capabilities { return newCapabilities(capBPF, capPerfmon) }

func TestATracerThatCanAttachIsOKThroughout(t *testing.T) {
	f := workingTracer()
	r := Run(t.Context(), traceableHost(t, traceableTree(), f, neededCapabilities()))
	for _, one := range r.Results {
		require.Equal(t, OK, one.Status, "%+v", one)
		require.Empty(t, one.Fix)
	}
	require.True(t, f.closed)
	require.Equal(t, packagedTracer+" has cap_bpf,cap_perfmon", r.resultsOf("file_capabilities")[0].Text)
	require.Equal(t, trial, r.resultsOf("tracer_trial")[0].Text)
}

// Each row breaks one thing, and the checks in want must report it. The trial fails too where it would fail on such a
// host.
func TestWhatATracerLacksIsReportedWithItsFix(t *testing.T) {
	const (
		wide = "echo cap_bpf,cap_perfmon,cap_sys_admin=ep >/etc/rdma-events/tracer.caps && rdma-events-tracer-caps"
		caps = "echo cap_bpf,cap_perfmon=ep >/etc/rdma-events/tracer.caps && rdma-events-tracer-caps"
	)
	unit := "etc/systemd/system/telegraf.service"
	for name, tt := range map[string]struct {
		files  tree
		change func(*System, *fakeTracer)
		want   finding // Text and Fix are parts of the reported ones
	}{
		"no program": {nil, func(s *System, _ *fakeTracer) {
			s.OpenTracer = func(string) (Tracer, error) { return nil, fmt.Errorf("open program: %w", fs.ErrNotExist) }
		}, finding{"tracer_program", "", Fail, "file does not exist", "install -m 0750 -g telegraf build/rdma-events-tracer /usr/bin && " +
			"setcap cap_bpf,cap_perfmon=ep /usr/bin/rdma-events-tracer"}},
		"a program that others may change": {nil, func(s *System, _ *fakeTracer) {
			s.OpenTracer = func(string) (Tracer, error) { return nil, status.ErrUntrusted }
		}, finding{"tracer_program", "", Fail, "not to be trusted", "chown root /usr/bin/rdma-events-tracer && " + caps}},
		"a program of another group": {nil, func(_ *System, f *fakeTracer) {
			f.versionErr = fmt.Errorf("run it: %w", unix.EACCES)
		}, finding{"tracer_program", "", Fail, "user 998 may not execute /usr/bin/rdma-events-tracer (mode 0750, group ", caps}},
		"another version": {nil, func(_ *System, f *fakeTracer) { f.version = "1.2.2" },
			finding{"tracer_program", "", Warn, "has version 1.2.2, and this program 1.2.3", "install"}},
		"a program for all users": {nil, func(s *System, _ *fakeTracer) { s.Root = s.Root.(modeFS).ReadLinkFS },
			finding{"tracer_program", "", Warn, "any user may execute", caps}},
		"no capabilities": {nil, func(s *System, _ *fakeTracer) {
			s.FileCaps = func(string) ([]byte, error) { return nil, nil }
		}, finding{"file_capabilities", "", Fail, "lacks cap_bpf,cap_perfmon", caps}},
		"capabilities of another form": {nil, func(s *System, _ *fakeTracer) {
			s.FileCaps = func(string) ([]byte, error) { return make([]byte, 20), nil }
		}, finding{"file_capabilities", "", Warn, "unknown form", caps}},
		"capabilities without a package": {nil, func(s *System, _ *fakeTracer) {
			s.TracerPath = "/opt/rdma-events-tracer"
			s.FileCaps = func(string) ([]byte, error) { return capabilityAttribute(newCapabilities(capBPF)), nil }
		}, finding{"file_capabilities", "", Fail, "/opt/rdma-events-tracer lacks cap_perfmon", "chgrp telegraf /opt/rdma-events-tracer && " +
			"chmod 0750 /opt/rdma-events-tracer && setcap cap_bpf,cap_perfmon=ep /opt/rdma-events-tracer"}},
		"a kernel of Debian": {tree{"proc/sys/kernel/perf_event_paranoid": "3\n"}, nil,
			finding{"perf_paranoid", "", Fail, "kernel.perf_event_paranoid is 3, so the tracer needs CAP_SYS_ADMIN too", wide}},
		"a unit of the administrator": {tree{"proc/812": "", unit + ".d/override.conf": "[Service]\nNoNewPrivileges=yes\n"}, nil,
			finding{"privilege_limits", "", Fail, "telegraf.service has NoNewPrivileges=yes", "NoNewPrivileges=no"}},
		"a running Telegraf": {tree{"proc/812/status": "NoNewPrivs:\t1\n", unit: "[Service]\nNoNewPrivileges=true\n"}, nil,
			finding{"privilege_limits", "", Fail, "Telegraf (process 812) has no_new_privs", "NoNewPrivileges=no"}},
		"another setting of its unit": {tree{"proc/812/status": "NoNewPrivs:\t1\n"}, nil,
			finding{"privilege_limits", "", Fail, "Telegraf (process 812) has no_new_privs", "systemctl cat telegraf"}},
		"a bounding set": {tree{"proc/812/status": "CapBnd:\t0000000000000000\n"}, nil,
			finding{"privilege_limits", "", Fail, "the bounding set of Telegraf (process 812) lacks cap_bpf,cap_perfmon", "CapabilityBoundingSet=CAP_BPF CAP_PERFMON"}},
		"a container": {tree{".dockerenv": "\n", "proc/self/status": "CapBnd:\t0000000000000000\n"}, nil,
			finding{"privilege_limits", "", Fail, "the bounding set of this process lacks", "docker run --pid=host --cap-add=BPF --cap-add=PERFMON IMAGE"}},
		"a kernel without types": {tree{"sys/kernel/btf": ""}, nil,
			finding{"kernel_types", "", Fail, "CONFIG_DEBUG_INFO_BTF", "grep CONFIG_DEBUG_INFO_BTF= /boot/config-6.12.57+deb13-amd64"}},
		"a module of a vendor": {tree{"sys/kernel/btf/ib_uverbs": ""}, nil,
			finding{"kernel_types", "", Fail, "built separately from the kernel", "modinfo -F filename ib_uverbs"}},
		"no module": {tree{"sys/kernel/btf/ib_uverbs": "", "sys/module/ib_uverbs": ""}, nil,
			finding{"kernel_types", "", Warn, "ib_uverbs is not loaded", "sudo modprobe ib_uverbs"}},
		"lockdown": {tree{"sys/kernel/security/lockdown": "none integrity [confidentiality]\n"}, nil,
			finding{"lockdown", "", Fail, "lockdown=confidentiality", "cat /sys/kernel/security/lockdown"}},
		"a PID namespace": {tree{"proc/self/ns/pid": "-> pid:[4026532000]"}, nil,
			finding{"pid_namespace", "", Warn, "not the host's", "docker run --pid=host"}},
		"a trial that fails": {nil, func(_ *System, f *fakeTracer) { f.said, f.tryErr = "", errors.New("refused\nby the verifier") },
			finding{"tracer_trial", "", Fail, "refused by the verifier", "sudo /usr/bin/rdma-events-tracer -try"}},
		"a kernel without a function": {nil, func(_ *System, f *fakeTracer) { f.said += "\nthis kernel has no ib_uverbs_release_ucq" },
			finding{"tracer_trial", "", Warn, trial + "; this kernel has no ib_uverbs_release_ucq", "-try"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := workingTracer()
			s := traceableHost(t, traceableTree().with(tt.files), f, neededCapabilities())
			if tt.change != nil {
				tt.change(s, f)
			}
			r := Run(t.Context(), s)
			require.Equal(t, tt.want.Status, r.Status)
			got := r.resultsOf(tt.want.Check)
			require.Len(t, got, 1, "%+v", r.Results)
			require.Equal(t, tt.want.Status, got[0].Status)
			require.Contains(t, got[0].Text, tt.want.Text)
			require.NotContains(t, got[0].Text, "\n")
			require.Contains(t, got[0].Fix.String(), tt.want.Fix)
			for _, one := range r.Results {
				require.True(t, one.Status < Warn || one.Check == tt.want.Check, "%+v", one)
			}
		})
	}
}

func TestTheTrialOfATracerIsSkippedWhereThereIsNothingToTrace(t *testing.T) {
	f := workingTracer()
	f.said, f.tryErr = "", errors.New("there is no RDMA device: the module ib_uverbs is not loaded")
	none := tree{"sys/class/infiniband": "", "sys/class/infiniband_verbs": "", "sys/module/ib_uverbs": "", "sys/kernel/btf/ib_uverbs": ""}
	r := Run(t.Context(), traceableHost(t, traceableTree().with(none), f, neededCapabilities()))
	trial := r.resultsOf("tracer_trial")
	require.Len(t, trial, 1)
	require.Equal(t, Skipped, trial[0].Status)
	require.Contains(t, trial[0].Text, "ib_uverbs is not loaded")
	require.Empty(t, trial[0].Fix)
}

func TestATracerWithCAP_SYS_ADMINAttachesToAParanoidKernel(t *testing.T) {
	files := traceableTree().with(tree{"proc/sys/kernel/perf_event_paranoid": "4\n"})
	r := Run(t.Context(), traceableHost(t, files, workingTracer(), neededCapabilities()|newCapabilities(capSysAdmin)))
	require.Equal(t, OK, r.Status)
	require.Equal(t, "kernel.perf_event_paranoid is 4: the tracer needs CAP_SYS_ADMIN too", r.resultsOf("perf_paranoid")[0].Text)
}

func TestAnAdministratorsDropInComesAfterTheUnit(t *testing.T) {
	const dir = "systemd/system/telegraf.service"
	files := traceableTree().with(tree{
		"proc/812": "", "usr/lib/" + dir: "[Service]\nNoNewPrivileges=yes\n", "etc/" + dir: "",
		"etc/" + dir + ".d/10-mine.conf": "[Service]\nNoNewPrivileges=no\n",
	})
	r := Run(t.Context(), traceableHost(t, files, workingTracer(), neededCapabilities()))
	require.Equal(t, OK, r.resultsOf("privilege_limits")[0].Status)
}

func TestATracerIsExaminedOnlyWhereItIsUsed(t *testing.T) {
	for name, row := range map[string]struct {
		plugin PluginConfig
		asked  bool
		want   bool
	}{
		"events":                {PluginConfig{Events: true}, false, true},
		"no events":             {PluginConfig{}, false, false},
		"no events, but asked":  {PluginConfig{}, true, true},
		"events of a simulator": {PluginConfig{Events: true, Simulated: true}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := traceableHost(t, traceableTree(), workingTracer(), neededCapabilities())
			s.Applications = row.asked
			s.Config = "/etc/telegraf/telegraf.d/rdma_events.conf"
			row.plugin.TracerPath = "/opt/tracer"
			s.Plugin = func(string) (PluginConfig, error) { return row.plugin, nil }
			opened := ""
			s.OpenTracer = func(path string) (Tracer, error) {
				opened = path
				return workingTracer(), nil
			}
			r := Run(t.Context(), s)
			require.Equal(t, row.want, len(r.resultsOf("tracer_program")) == 1)
			require.Equal(t, row.want, opened == "/opt/tracer")
		})
	}
}
