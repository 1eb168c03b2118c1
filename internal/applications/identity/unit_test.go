package identity

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unitRows returns the rows of units.txt. Each has a cgroup as kernels, kubelets, container engines, Slurm and systemd create it, and its
// unit.
func unitRows(t *testing.T) [][3]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "units.txt"))
	require.NoError(t, err)
	var rows [][3]string
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		lines := strings.Split(block, "\n")
		require.GreaterOrEqual(t, len(lines), 3, block)
		name, ok := strings.CutPrefix(lines[0], "# ")
		require.True(t, ok, block)
		unit, ok := strings.CutPrefix(lines[1], "unit ")
		require.True(t, ok, block)
		rows = append(rows, [3]string{name, strings.Trim(unit, `"`), strings.Join(lines[2:], "\n") + "\n"})
	}
	return rows
}

func TestTheUnitIsTheInnermostOfPodJobContainerAndService(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range unitRows(t) {
		require.False(t, seen[row[0]], "%s is there twice", row[0])
		seen[row[0]] = true
		t.Run(row[0], func(t *testing.T) { require.Equal(t, row[1], Unit(row[2])) })
	}
	require.GreaterOrEqual(t, len(seen), 40)
}

func TestNamesThatOnlyLookLikeUnitsAreNone(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for _, path := range []string{
		"/user.slice/job_7", "/slurm/uid_0/job_", "/slurm/uid_0/job_7x", "/docker/" + id[1:], "/docker-" + id, "/notdocker/" + id,
		"/podman", "/pod1234", "/user.slice/a-pod" + id[:32] + ".slice", "/.service", "/service", "relative.service", "",
		"/" + strings.Repeat("x", 300) + ".service", "/kubepods/pod" + id[:31] + "g",
	} {
		require.Empty(t, Unit("0::"+path), path)
	}
	require.Empty(t, Unit("/system.slice/sshd.service"), "a path without hierarchy and controllers")
	require.Empty(t, Unit("0:/system.slice/sshd.service"))
}

func TestForeignCharactersOfAServiceAreReplaced(t *testing.T) {
	require.Equal(t, "a_x2db___@1:2.service", Unit("0::/a\\x2db \"ä@1:2.service"))
	require.Equal(t, "a_b.service", Unit("0::/a\x00b.service"))
	require.Equal(t, "a__b.service", Unit("0::/a\xff,b.service"))
}

var onlyAllowed = regexp.MustCompile(`^[A-Za-z0-9_.:@-]*$`)

func FuzzUnitsHaveOnlyAllowedCharacters(f *testing.F) {
	f.Add("0::/system.slice/slurmstepd.scope/job_4/step_0/user/task_0\n1:name=systemd:/x y.service")
	f.Add("11:devices:/kubepods/besteffort/pod74c13223-5a00-11e9-b385-42010a80018d/34dc")
	f.Fuzz(func(t *testing.T, cgroup string) {
		unit := Unit(cgroup)
		require.Regexp(t, onlyAllowed, unit)
		require.LessOrEqual(t, len(unit), 255)
	})
}
