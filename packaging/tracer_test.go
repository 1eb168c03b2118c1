package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	tracerProgram = "/usr/bin/rdma-events-tracer"
	tracerCaps    = "/etc/rdma-events/tracer.caps"
)

// newTracerRoot returns a root whose chgrp and setcap record their arguments and exit with given statuses.
func newTracerRoot(t *testing.T, chgrp, setcap string) *root {
	t.Helper()
	r := newRoot(t, 0)
	for name, status := range map[string]string{"chgrp": chgrp, "setcap": setcap} {
		script := "#!/bin/sh\necho \"" + name + " $*\" >>" + r.path("asked") + "\nexit " + status + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(r.bin, name), []byte(script), 0o755))
	}
	return r
}

// requests returns the lines that chgrp and setcap have recorded, with the paths in the root as in a package.
func (r *root) requests() []string {
	r.Helper()
	text := strings.ReplaceAll(r.read("asked"), r.dir, "")
	require.NoError(r, os.Remove(r.path("asked")))
	return strings.Split(strings.TrimSpace(text), "\n")
}

// apply runs the script that gives the program its capabilities. The script finds only commands in path. "": it finds all.
func (r *root) apply(path string) (string, error) {
	r.Helper()
	cmd := r.command("/bin/sh", r.path("/usr/sbin/rdma-events-tracer-caps"))
	if path != "" {
		cmd.Env = append(cmd.Env, "PATH="+path)
	}
	out, err := cmd.CombinedOutput()
	return strings.ReplaceAll(string(out), r.dir, ""), err
}

func TestOnlyTheTracersPackageHasTheTracer(t *testing.T) {
	base, tracer := readRecipe(t), readRecipeOf(t, "nfpm-tracer.yaml")
	for _, c := range base.Contents {
		require.NotContains(t, c.Dst, "tracer")
	}
	mine := map[string]bool{}
	for _, c := range base.Contents {
		mine[c.Dst] = true
	}
	for _, c := range tracer.Contents {
		require.False(t, mine[c.Dst], "%s is in both packages", c.Dst)
		if c.Dst == tracerProgram {
			require.Equal(t, os.FileMode(0o750), c.Info.Mode)
			require.Equal(t, "telegraf", c.Info.Group)
		}
	}
	require.Contains(t, tracer.Overrides["deb"].Depends, "rdma-events (>= ${PACKAGE_VERSION})")
	require.Contains(t, tracer.Overrides["rpm"].Depends, "rdma-events >= ${PACKAGE_VERSION}")
}

// The list is applied when the package is installed, and again to the new file after each upgrade. chgrp comes first, because it
// removes capabilities.
func TestTheTracerGetsTheCapabilitiesOfTheListAtEachInstall(t *testing.T) {
	recipe := readRecipeOf(t, "nfpm-tracer.yaml")
	r := newTracerRoot(t, "0", "0")
	r.dpkg("-i", recipe.build(t, "1", nil))
	require.Equal(t, []string{"chgrp telegraf " + tracerProgram, "setcap cap_bpf,cap_perfmon=ep " + tracerProgram}, r.requests())
	info, err := os.Stat(r.path(tracerProgram))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o750), info.Mode().Perm())

	r.write(tracerCaps, "# mine\ncap_bpf,cap_perfmon,cap_sys_admin=ep # Debian\n")
	r.dpkg("-i", recipe.build(t, "2", nil))
	const wider = "setcap cap_bpf,cap_perfmon,cap_sys_admin=ep " + tracerProgram
	require.Contains(t, r.requests(), wider, "an upgrade keeps the administrator's list")
	said, err := r.apply("")
	require.NoError(t, err, said)
	require.Equal(t, "rdma-events-tracer-caps: "+tracerProgram+" has cap_bpf,cap_perfmon,cap_sys_admin=ep\n", said)
	require.Contains(t, r.requests(), wider)

	r.dpkg("-r", recipe.Name)
	require.NoFileExists(t, r.path(tracerProgram))
	r.dpkg("-P", recipe.Name)
	require.NoDirExists(t, r.path(filepath.Dir(tracerCaps)))
}

func TestTheTracersPackageIsInstalledWithoutItsCapabilitiesToo(t *testing.T) {
	recipe := readRecipeOf(t, "nfpm-tracer.yaml")
	for name, row := range map[string]struct{ chgrp, setcap, list, want string }{
		"no group":       {"1", "0", "cap_bpf=ep\n", "there is no group telegraf, so Telegraf may not execute " + tracerProgram},
		"setcap refuses": {"0", "1", "cap_none=ep\n", tracerProgram + " has no capabilities: setcap cap_none=ep: "},
		"an empty list":  {"0", "0", "# none\n", tracerCaps + " has no line"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTracerRoot(t, row.chgrp, row.setcap)
			r.dpkg("-i", recipe.build(t, "1", map[string]string{tracerCaps: row.list}))
			said, err := r.apply("")
			require.Error(t, err)
			require.Contains(t, said, row.want)
			require.Equal(t, 1, strings.Count(said, "\n"), said)
		})
	}
}

func TestAMissingSetcapIsNamedInOneLine(t *testing.T) {
	recipe := readRecipeOf(t, "nfpm-tracer.yaml")
	r := newTracerRoot(t, "0", "0")
	r.dpkg("-i", recipe.build(t, "1", nil))
	require.NoError(t, os.Remove(filepath.Join(r.bin, "setcap")))
	for _, name := range []string{"sed", "xargs", "echo", "chmod"} { // the script's other commands
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(r.bin, name)))
	}
	said, err := r.apply(r.bin)
	require.Error(t, err)
	require.Equal(t, "rdma-events-tracer-caps: there is no setcap, so "+tracerProgram+" has no capabilities; "+
		"install libcap2-bin, libcap or libcap-progs, and run rdma-events-tracer-caps\n", said)
}
