package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// recipe is the part of nfpm.yaml that the tests use.
type recipe struct {
	Name     string
	Contents []struct {
		Src, Dst, Type string
		Info           struct {
			Mode  os.FileMode
			Group string
		} `yaml:"file_info"`
	}
	Scripts   map[string]string
	Overrides map[string]struct{ Depends []string }

	depends string // of the debs that build makes; "": they depend on nothing
}

func readRecipe(t *testing.T) recipe {
	t.Helper()
	return readRecipeOf(t, "nfpm.yaml")
}

func readRecipeOf(t *testing.T, file string) recipe {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r recipe
	require.NoError(t, yaml.Unmarshal(text, &r))
	return r
}

// dropIn returns the path at which the drop-in for telegraf.service is installed.
func (r *recipe) dropIn(t *testing.T) string {
	t.Helper()
	for _, c := range r.Contents {
		if c.Src == "packaging/systemd/telegraf.conf" {
			return c.Dst
		}
	}
	require.FailNow(t, "nfpm.yaml has no drop-in")
	return ""
}

// build builds a deb of a version as nfpm does, with one line instead of each
// program, and returns its path. changed has the text of files that differ; an
// empty text leaves the file out.
func (r *recipe) build(t *testing.T, version string, changed map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	var conffiles strings.Builder
	put := func(name, text string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
	}
	for _, c := range r.Contents {
		text, change := changed[c.Dst]
		switch {
		case c.Type == "dir" || change && text == "":
			continue
		case strings.HasPrefix(c.Src, "${"):
			put(c.Dst, "#!/bin/sh\n", c.Info.Mode)
			continue
		case !change:
			source, err := os.ReadFile(filepath.Join("..", c.Src))
			require.NoError(t, err)
			text = string(source)
		}
		put(c.Dst, text, c.Info.Mode)
		if strings.HasPrefix(c.Type, "config") {
			conffiles.WriteString(c.Dst + "\n")
		}
	}
	for name, text := range changed {
		if text != "" {
			put(name, text, 0o644)
		}
	}
	control := "Package: " + r.Name + "\nVersion: " + version + "\nArchitecture: all\nMaintainer: test <test@localhost>\nDescription: test\n"
	if r.depends != "" {
		control += "Depends: " + strings.ReplaceAll(r.depends, "${PACKAGE_VERSION}", version) + "\n"
	}
	put("DEBIAN/control", control, 0o644)
	put("DEBIAN/conffiles", conffiles.String(), 0o644)
	for when, name := range map[string]string{"preinstall": "preinst", "postinstall": "postinst", "preremove": "prerm", "postremove": "postrm"} {
		if path := r.Scripts[when]; path != "" {
			script, err := os.ReadFile(filepath.Join("..", path))
			require.NoError(t, err)
			put("DEBIAN/"+name, string(script), 0o755)
		}
	}
	deb := filepath.Join(t.TempDir(), version+".deb")
	out, err := exec.CommandContext(t.Context(), "dpkg-deb", "--root-owner-group", "-Znone", "-b", dir, deb).CombinedOutput()
	require.NoError(t, err, string(out))
	return deb
}

// root is a file system root for dpkg. Its systemctl records its arguments and
// exits with a given status.
type root struct {
	*testing.T
	dir, bin string
}

func newRoot(t *testing.T, status int) *root {
	t.Helper()
	r := &root{T: t, dir: t.TempDir(), bin: t.TempDir()}
	r.write("var/lib/dpkg/status", "")
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "run/systemd/system"} {
		require.NoError(t, os.MkdirAll(r.path(dir), 0o755))
	}
	systemctl := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>%s\nexit %d\n", r.path("asked"), status)
	require.NoError(t, os.WriteFile(filepath.Join(r.bin, "systemctl"), []byte(systemctl), 0o755))
	return r
}

func (r *root) path(name string) string { return filepath.Join(r.dir, name) }

func (r *root) write(name, text string) {
	r.Helper()
	require.NoError(r, os.MkdirAll(filepath.Dir(r.path(name)), 0o755))
	require.NoError(r, os.WriteFile(r.path(name), []byte(text), 0o644))
}

func (r *root) read(name string) string {
	r.Helper()
	text, err := os.ReadFile(r.path(name))
	require.NoError(r, err)
	return string(text)
}

// command returns a command with the environment of maintainer scripts that dpkg
// runs without chroot (DPKG_ROOT in dpkg(1)). It has no terminal.
func (r *root) command(name string, args ...string) *exec.Cmd {
	line := append([]string{name}, args...)
	if os.Getuid() != 0 {
		line = append([]string{"unshare", "--map-root-user"}, line...)
	}
	cmd := exec.CommandContext(r.Context(), line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "DPKG_ROOT="+r.dir, "PATH="+r.bin+":/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	return cmd
}

// dpkg runs dpkg on the root, which has to succeed.
func (r *root) dpkg(args ...string) {
	r.Helper()
	out, err := r.command("dpkg", append([]string{"--root=" + r.dir, "--log=/dev/null", "--force-script-chrootless"}, args...)...).CombinedOutput()
	require.NoError(r, err, "dpkg %v: %s", args, out)
}

// asked returns the arguments that systemctl was called with, each once.
func (r *root) asked() []string {
	r.Helper()
	seen := map[string]bool{}
	var all []string
	for _, line := range strings.Fields(r.read("asked")) {
		if !seen[line] {
			seen[line] = true
			all = append(all, line)
		}
	}
	return all
}

const snippet = "/etc/telegraf/telegraf.d/rdma_events.conf"

func TestRemovedPackageIsInstalledAgainWithoutQuestions(t *testing.T) {
	recipe := readRecipe(t)
	first, same := recipe.build(t, "1", nil), recipe.build(t, "2", nil)
	newer := recipe.build(t, "3", map[string]string{snippet: "# of another version\n"})
	for name, row := range map[string]struct{ edit, again, want string }{
		"a changed snippet":        {"", newer, "# of another version\n"},
		"the same snippet":         {"", same, ""},
		"a snippet that is edited": {"# mine\n", same, "# mine\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoot(t, 0)
			r.dpkg("-i", first)
			shipped := r.read(snippet)
			if row.edit != "" {
				r.write(snippet, row.edit)
			}
			r.dpkg("-r", "rdma-events")
			require.NoFileExists(t, r.path(snippet), "Telegraf would not start with it")
			r.dpkg("-i", row.again)
			if row.want == "" {
				row.want = shipped
			}
			require.Equal(t, row.want, r.read(snippet))
			require.NoFileExists(t, r.path(snippet+".disabled"))
			r.dpkg("-r", "rdma-events")
			r.dpkg("-P", "rdma-events")
			require.NoFileExists(t, r.path(snippet+".disabled"))
		})
	}
}

func TestPackageThatIsNotUnpackedLeavesNoSnippet(t *testing.T) {
	recipe := readRecipe(t)
	r := newRoot(t, 0)
	r.dpkg("-i", recipe.build(t, "1", nil))
	r.dpkg("-r", "rdma-events")
	cut := recipe.build(t, "2", nil)
	info, err := os.Stat(cut)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(cut, info.Size()/2))
	out, err := r.command("dpkg", "--root="+r.dir, "--log=/dev/null", "--force-script-chrootless", "-i", cut).CombinedOutput()
	require.Error(t, err, string(out))
	require.NoFileExists(t, r.path("/usr/bin/rdma-events"))
	require.NoFileExists(t, r.path(snippet))
	require.FileExists(t, r.path(snippet+".disabled"))
}

func TestFailingSystemctlStopsNoPackage(t *testing.T) {
	recipe := readRecipe(t)
	r := newRoot(t, 1)
	r.dpkg("-i", recipe.build(t, "1", nil))
	r.dpkg("-i", recipe.build(t, "2", nil))
	r.dpkg("-r", "rdma-events")
	r.dpkg("-P", "rdma-events")
	require.Equal(t, []string{"daemon-reload"}, r.asked())
	for _, path := range recipe.Scripts {
		for _, left := range []string{"0", "1", "2"} { // the number of installed versions, which rpm passes
			out, err := r.command("sh", filepath.Join("..", path), left).CombinedOutput()
			require.NoError(t, err, "%s %s: %s", path, left, out)
		}
	}
}
