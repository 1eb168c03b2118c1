package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// apt runs apt-get, with its own solver, on a root of dpkg. The given files are the only source of packages.
func (r *root) apt(args ...string) string {
	r.Helper()
	for _, dir := range []string{"var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "etc/apt/preferences.d", "etc/apt/apt.conf.d"} {
		require.NoError(r, os.MkdirAll(r.path(dir), 0o755))
	}
	options := []string{
		"-y", "-o", "Dir=" + r.dir, "-o", "Dir::State::status=" + r.path("var/lib/dpkg/status"), "-o", "Dir::Bin::dpkg=/usr/bin/dpkg",
		"-o", "Dir::Etc::sourcelist=/dev/null", "-o", "Dir::Etc::sourceparts=/dev/null", "-o", "Dir::Log=" + r.dir,
		"-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1", "-o", "APT::Get::AllowUnauthenticated=1",
		"-o", "DPkg::Options::=--root=" + r.dir, "-o", "DPkg::Options::=--log=/dev/null", "-o", "DPkg::Options::=--force-script-chrootless",
	}
	out, err := r.command("apt-get", append(options, args...)...).CombinedOutput()
	require.NoError(r, err, "apt-get %v: %s", args, out)
	return string(out)
}

// installed returns the installed version of a package, or "" if the package is not installed.
func (r *root) installed(name string) string {
	r.Helper()
	cmd := r.command("dpkg-query", "--admindir="+r.path("var/lib/dpkg"), "-W", "-f", "${db:Status-Status} ${Version}", name)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(r, err, &exit)
	}
	version, _ := strings.CutPrefix(string(out), "installed ")
	return version
}

// bothRecipes returns the recipes of both packages, with the dependencies of their debs.
func bothRecipes(t *testing.T) (plugin, tracer recipe) {
	t.Helper()
	plugin, tracer = readRecipe(t), readRecipeOf(t, "nfpm-tracer.yaml")
	for _, r := range []*recipe{&plugin, &tracer} {
		r.depends = strings.ReplaceAll(strings.Join(r.Overrides["deb"].Depends, ", "), "${GLIBC}", "2.34")
	}
	return plugin, tracer
}

// apt -y removes packages that prevent an upgrade, without asking.
func TestAptUpgradesThePluginAndKeepsTheTracer(t *testing.T) {
	plugin, tracer := bothRecipes(t)
	r := newTracerRoot(t, "0", "0")
	var status strings.Builder
	for _, name := range []string{"libc6", "libcap2-bin"} {
		status.WriteString("Package: " + name + "\nStatus: install ok installed\nVersion: 3\nArchitecture: all\nMaintainer: test <test@localhost>\n" +
			"Description: test\n\n")
	}
	r.write("var/lib/dpkg/status", status.String())
	r.apt("install", plugin.build(t, "1", nil), tracer.build(t, "1", nil))
	require.Equal(t, "1", r.installed(plugin.Name))
	require.Equal(t, "1", r.installed(tracer.Name))

	newer := plugin.build(t, "2", nil)
	plan := r.apt("--simulate", "install", newer)
	require.Contains(t, plan, "Inst rdma-events [1] (2 ")
	require.NotContains(t, plan, "Remv")
	r.apt("install", newer)
	require.Equal(t, "2", r.installed(plugin.Name))
	require.Equal(t, "1", r.installed(tracer.Name))
	require.FileExists(t, filepath.Join(r.dir, tracerProgram))

	r.apt("install", tracer.build(t, "2", nil))
	require.Equal(t, "2", r.installed(tracer.Name))
	r.apt("install", plugin.build(t, "3", nil), tracer.build(t, "3", nil))
	require.Equal(t, "3", r.installed(plugin.Name))
	require.Equal(t, "3", r.installed(tracer.Name))
}

// A tracer that is newer than the plugin may report its start in a way that the plugin does not know.
func TestTracerNewerThanThePluginIsNotConfigured(t *testing.T) {
	plugin, tracer := bothRecipes(t)
	plugin.depends = ""
	r := newTracerRoot(t, "0", "0")
	r.apt("install", plugin.build(t, "1", nil))
	tracer.depends = strings.ReplaceAll(tracer.depends, ", libcap2-bin", "")
	newer := tracer.build(t, "2", nil)
	out, err := r.command("dpkg", "--root="+r.dir, "--log=/dev/null", "--force-script-chrootless", "-i", newer).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "depends on rdma-events (>= 2)")
}
