package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/fabric/pinglist"
)

// slurmFile returns the text of a file that readers of docs/how-to/slurm.md are told to write.
func slurmFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/how-to/slurm.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "sudo tee "+path+" <<'EOF'\n")
	require.True(t, found)
	lines, _, found := strings.Cut(rest, "EOF\n")
	require.True(t, found)
	return lines
}

// The lines are those that _print_topo_record of Slurm's topology_tree.c prints, and an older release's, which end with a blank.
func TestSlurmsLeavesAreTheGroupsOfTheList(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	write("rdma-peers", slurmFile(t, "/usr/local/sbin/rdma-peers"))
	write("scontrol", `#!/bin/sh
case "$*" in
"show topology") cat <<'EOF'
SwitchName=core Level=1 LinkSpeed=1 Nodes=n[1-5] Switches=leaf[1-3]
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n3
SwitchName=leaf3 Level=0 LinkSpeed=1 Nodes=n[4-5] `+`
EOF
;;
"show hostnames n[1-2]") printf 'n1\nn2\n' ;;
"show hostnames n3") echo n3 ;;
"show hostnames n[4-5]") printf 'n4\nn5\n' ;;
*) exit 9 ;;
esac
`)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "rdma-peers"))
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "n1 leaf1\nn2 leaf1\nn3 leaf2\nn4 leaf3\nn5 leaf3\n", string(out))
	list, err := pinglist.ParseList(bytes.NewReader(out))
	require.NoError(t, err)
	require.Equal(t, 3, list.Groups())
}

func TestSlurmsEpilogKeepsWhatBrokeAndNeverFails(t *testing.T) {
	const (
		events = "events -since @1795701720 -unit job_1234 -summary yes"
		report = "report -timeout 5s -since @1795701720 -out "
		broke  = "first    2026-11-26 10:12:00.031  n042 mlx5_1:1  went down (port_err)"
		quiet  = "first    nothing broke here in this time, as far as it was recorded"
	)
	for name, row := range map[string]struct {
		line, status, start string
		want                []string
	}{
		"a fault":             {broke, "0", "1795701720", []string{events, report}},
		"a damaged record":    {broke, "1", "1795701720", []string{events, report}},
		"nothing":             {quiet, "0", "1795701720", []string{events}},
		"a failure":           {"", "2", "1795701720", []string{events, report}},
		"no time of the job":  {quiet, "0", "", []string{strings.Replace(events, "@1795701720", "24h", 1)}},
		"a program that died": {"", "137", "1795701720", []string{events, report}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			logs := filepath.Join(dir, "logs")
			write := func(name, text string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
			}
			write("rdma-epilog", slurmFile(t, "/usr/local/sbin/rdma-epilog"))
			write("rdma-events", "#!/bin/sh\necho \"$*\" >>"+dir+"/asked\necho '"+row.line+"'\nexit "+row.status+"\n")
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "rdma-epilog"))
			cmd.Env = []string{
				"PATH=" + dir + ":/usr/bin:/bin", "SLURMD_NODENAME=n042", "SLURM_JOB_ID=1234", "SLURM_JOB_UID=12345",
				"SLURM_JOB_START_TIME=" + row.start, "RDMA_JOB_LOGS=" + logs,
			}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "Slurm would drain the node")
			require.Empty(t, string(out))
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			require.NoError(t, err)
			require.Equal(t, strings.Join(row.want, "\n")+"\n", strings.ReplaceAll(string(asked), logs, ""))
			summary := filepath.Join(logs, "job_1234-n042.txt")
			text, err := os.ReadFile(summary)
			require.NoError(t, err)
			require.Equal(t, row.line+"\n", string(text))
			info, err := os.Stat(summary)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode())
		})
	}
	t.Run("no rdma-events and no place", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "rdma-epilog"), []byte(slurmFile(t, "/usr/local/sbin/rdma-epilog")), 0o755))
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "rdma-epilog"))
		cmd.Env = []string{"PATH=/usr/bin:/bin", "SLURM_JOB_ID=1234", "RDMA_JOB_LOGS=/proc/none"}
		require.NoError(t, cmd.Run())
	})
}
