package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// debianHost has programs in the place of Debian's, of which scripts/packages.sh learns what the lists know and what is
// installed.
type debianHost struct {
	*testing.T
	dir string
}

// newDebianHost returns a host whose lists know kernel 1, and kernel 2 once they are refreshed.
func newDebianHost(t *testing.T, installed ...string) *debianHost {
	t.Helper()
	h := &debianHost{T: t, dir: t.TempDir()}
	for name, text := range map[string]string{
		"apt-cache":  "echo \"  Depends: linux-image-$(cat kernel)-amd64\"\n",
		"dpkg-query": "for last; do :; done\ngrep -qxF \"$last\" installed && printf installed\n",
		"apt-get": `case " $* " in
*" update "*) echo 2 >kernel ;;
*" install "*)
	while [ "$1" != --no-install-recommends ]; do shift; done
	shift
	for p; do echo "$p" >>installed; done
	;;
esac
`,
		"sudo": "shift\nexec \"$@\"\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(h.dir, name), []byte("#!/bin/sh\n"+text), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "kernel"), []byte("1\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "installed"), []byte(strings.Join(installed, "\n")+"\n"), 0o644))
	return h
}

// installs runs scripts/packages.sh and returns the packages that it installs.
func (h *debianHost) installs(group string) []string {
	h.Helper()
	script, err := filepath.Abs("../scripts/packages.sh")
	require.NoError(h, err)
	before := h.installed()
	cmd := exec.CommandContext(h.Context(), script, group)
	cmd.Dir = h.dir
	cmd.Env = append(os.Environ(), "PATH="+h.dir+":"+os.Getenv("PATH"), "LAB_KERNEL=")
	out, err := cmd.CombinedOutput()
	require.NoError(h, err, "%s", out)
	return h.installed()[len(before):]
}

func (h *debianHost) installed() []string {
	h.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "installed"))
	require.NoError(h, err)
	return strings.Fields(string(text))
}

// The guests boot the newest kernel that the lists know, whichever group has refreshed them. This was found when Debian
// published a kernel between the two halves of make release.
func TestHeadersFollowTheKernelOfTheRefreshedLists(t *testing.T) {
	h := newDebianHost(t, "linux-headers-1-amd64", "crun", "debootstrap", "ca-certificates")
	require.Equal(t, []string{"buildah", "linux-headers-2-amd64"}, h.installs("image"))
	require.Empty(t, h.installs("image"))
}

func TestHeadersAreOnlyInstalledForTheLab(t *testing.T) {
	h := newDebianHost(t, "crun", "debootstrap", "ca-certificates")
	require.Equal(t, []string{"buildah"}, h.installs("image"))

	h = newDebianHost(t)
	require.Contains(t, h.installs("lab"), "linux-headers-2-amd64")
	require.NotContains(t, h.installed(), "linux-headers-1-amd64")
}
