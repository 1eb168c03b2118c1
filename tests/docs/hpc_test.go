package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/fabric"
)

// written returns the text of a file that docs/hpc.md has people write.
func written(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/hpc.md"))
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
	write("rdma-peers", written(t, "/usr/local/sbin/rdma-peers"))
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
	list, err := fabric.ParseList(bytes.NewReader(out))
	require.NoError(t, err)
	require.Equal(t, 3, list.Groups())
}
