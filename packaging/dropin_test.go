package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const units = "/etc/systemd/system/telegraf.service.d/"

// serviceSettings returns the names that a unit's file assigns in [Service].
func serviceSettings(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	_, service, ok := strings.Cut(string(text), "[Service]\n")
	require.True(t, ok, path)
	service, _, _ = strings.Cut(service, "\n[")
	var names []string
	for line := range strings.Lines(service) {
		if name, _, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

func TestDropInSetsNothingOfTelegrafsUnit(t *testing.T) {
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/influxdata/telegraf").Output()
	require.NoError(t, err)
	unit := serviceSettings(t, filepath.Join(strings.TrimSpace(string(module)), "scripts/telegraf.service"))
	require.Contains(t, unit, "ExecStart")
	own := serviceSettings(t, "systemd/telegraf.conf")
	require.NotEmpty(t, own)
	for _, name := range own {
		require.NotContains(t, unit, name)
	}
}

// With probes between hosts the plugin, a child of Telegraf, listens on a TCP port and reads files in /etc/rdma-events. These
// settings of systemd.exec(5) and systemd.resource-control(5) could keep it from that.
func TestTelegrafsUnitLeavesThePluginItsPortAndItsFiles(t *testing.T) {
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/influxdata/telegraf").Output()
	require.NoError(t, err)
	unit := append(serviceSettings(t, filepath.Join(strings.TrimSpace(string(module)), "scripts/telegraf.service")),
		serviceSettings(t, "systemd/telegraf.conf")...)
	require.Contains(t, unit, "User")
	for _, restriction := range []string{
		"RestrictAddressFamilies", "IPAddressDeny", "IPAddressAllow", "SocketBindDeny", "PrivateNetwork", "RestrictNetworkInterfaces", "SystemCallFilter",
		"InaccessiblePaths", "TemporaryFileSystem", "RootDirectory", "RootImage",
	} {
		require.NotContains(t, unit, restriction, "docs/how-to/fabric.md says that the unit restricts nothing")
	}
}

// systemd applies drop-ins in the order of their names, in whichever directory they
// are, and the last assignment wins (systemd.unit(5)). `systemctl edit` creates
// override.conf.
func TestDropInYieldsToTheAdministrator(t *testing.T) {
	recipe := readRecipe(t)
	names := []string{"override.conf", "10-limits.conf", "limits.conf", filepath.Base(recipe.dropIn(t))}
	slices.Sort(names)
	require.Equal(t, filepath.Base(recipe.dropIn(t)), names[0])
}

func TestAdministratorsFileStaysInPlaceOfTheDropIn(t *testing.T) {
	recipe := readRecipe(t)
	const old = "/usr/lib/systemd/system/telegraf.service.d/rdma_events.conf"
	before := recipe.build(t, "0.0.1", map[string]string{recipe.dropIn(t): "", old: "[Service]\nLimitMEMLOCK=8M\n"})
	after := recipe.build(t, "1", nil)
	for name, own := range map[string]func(r *root){
		"none": func(*root) {},
		"a file": func(r *root) {
			r.write(units+"rdma_events.conf", "[Service]\nLimitMEMLOCK=64M\n")
		},
		"a mask": func(r *root) {
			require.NoError(r, os.MkdirAll(r.path(units), 0o755))
			require.NoError(r, os.Symlink("/dev/null", r.path(units+"rdma_events.conf")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoot(t, 0)
			r.dpkg("-i", before)
			own(r)
			r.dpkg("-i", after)
			require.NoFileExists(t, r.path(old))
			require.FileExists(t, r.path(recipe.dropIn(t)))
			link := r.path(units + "00-rdma_events.conf")
			if name == "none" {
				require.NoFileExists(t, link)
				return
			}
			target, err := os.Readlink(link)
			require.NoError(t, err)
			require.Equal(t, "rdma_events.conf", target)
			r.dpkg("-P", "rdma-events")
			_, err = os.Lstat(link)
			require.ErrorIs(t, err, os.ErrNotExist)
			_, err = os.Lstat(r.path(units + "rdma_events.conf"))
			require.NoError(t, err, "it is the administrator's")
		})
	}
}
