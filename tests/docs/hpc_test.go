package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// healthProgram returns the program for Slurm that docs/hpc.md has people write.
func healthProgram(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/hpc.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "sudo tee /usr/local/sbin/rdma-health <<'EOF'\n")
	require.True(t, found)
	program, _, found := strings.Cut(rest, "EOF\n")
	require.True(t, found)
	return program
}

func TestSlurmsHealthProgramDrainsOnceAndOnlyForWhatIsCritical(t *testing.T) {
	const (
		line  = "mlx5_1:1 port-down since 14:02"
		drain = "update NodeName=n042 State=DRAIN Reason=rdma: " + line + "\n"
	)
	for name, row := range map[string]struct{ status, state, want string }{
		"no problem":          {"0", "IDLE", ""},
		"a warning":           {"1", "IDLE", ""},
		"a critical problem":  {"2", "IDLE", drain},
		"a node in use":       {"2", "MIXED", drain},
		"a drained node":      {"2", "IDLE+DRAIN", ""},
		"a draining node":     {"2", "ALLOCATED+DRAIN", ""},
		"a node that is down": {"2", "DOWN", ""},
		"a maintenance":       {"2", "IDLE+MAINTENANCE", ""},
		"a reason of before":  {"2", "IDLE Partitions=NODRAIN Reason=was DRAINED", drain},
		"wrong use":           {"64", "IDLE", ""},
		"no running plugin":   {"70", "IDLE", ""},
		"no rdma-events":      {"127", "IDLE", ""},
		"a program that died": {"137", "IDLE", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
			}
			write("rdma-health", healthProgram(t))
			write("rdma-events", "#!/bin/sh\n[ \"$*\" = health ] || exit 99\necho '"+line+"'\nexit "+row.status+"\n")
			write("scontrol", "#!/bin/sh\n[ \"$1\" != -o ] || { echo \"NodeName=$4 State="+row.state+"\"; exit; }\necho \"$*\" >>"+dir+"/asked\n")
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "rdma-health"))
			cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "SLURMD_NODENAME=n042"}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if row.want == "" {
				require.ErrorIs(t, err, os.ErrNotExist)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, string(asked))
		})
	}
}
