package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
)

const root = "../.."

// documentPaths returns the paths of all documents that contain commands for people.
func documentPaths(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	require.NoError(t, err)
	found, err := filepath.Glob(filepath.Join(root, "docs/*/*.md"))
	require.NoError(t, err)
	require.Greater(t, len(found), 10)
	found = append(pages, found...)
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "plugins/inputs/rdma_events/README.md"} {
		found = append(found, filepath.Join(root, name))
	}
	return found
}

func TestEveryCommandInTheDocumentsIsRun(t *testing.T) {
	rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events")
	rig.Program(t, "TELEGRAF_BIN", "tools/telegraf")
	ran := map[string]bool{} // the commands that run here already
	for _, path := range documentPaths(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			var here []Command
			for _, c := range Commands(string(text)) {
				p := commandPlace(c.Text)
				switch {
				case c.NotRun || p.NotRun != "":
				case p.Where != "":
					requireSaid(t, p)
				case p.Run == "" && strings.HasPrefix(c.Text, "make ") && !shortTarget(c.Text):
					t.Errorf("line %d: %s: a target may take hours; list in places.go where it is run, or there why no test runs it", c.Line, c.Text)
				case !ran[c.Text]:
					ran[c.Text] = true
					here = append(here, c)
				}
			}
			runHere(t, here)
		})
	}
}

// shortTarget reports whether a command is a target of make that takes seconds.
func shortTarget(command string) bool {
	return command == "make help" || strings.HasPrefix(command, "make run FOR=")
}

// A place is an error if no document contains its command any more.
func TestEveryPlaceIsOfACommand(t *testing.T) {
	var all []string
	for _, path := range documentPaths(t) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, c := range Commands(string(text)) {
			all = append(all, c.Text)
		}
	}
	seen := map[string]bool{}
	for _, p := range Places() {
		require.Contains(t, all, p.Command)
		require.False(t, seen[p.Command], "%s has two places, and only the first counts", p.Command)
		seen[p.Command] = true
	}
}

func commandPlace(command string) Place {
	for _, p := range Places() {
		if p.Command == command {
			return p
		}
	}
	return Place{Command: command}
}

// requireSaid requires that a place exists: the line of a step of CI, or a test
// of that name.
func requireSaid(t *testing.T, p Place) {
	t.Helper()
	if !slices.Contains(steps, p.Where) {
		require.Regexp(t, `^func Test\w+\($`, p.Says, p.Command)
		require.True(t, strings.HasSuffix(p.Where, "_test.go"), p.Command)
	}
	text, err := os.ReadFile(filepath.Join(root, p.Where))
	require.NoError(t, err, p.Command)
	require.Contains(t, string(text), p.Says, p.Command)
}

// runHere runs commands one after the other, in the order of their document.
func runHere(t *testing.T, commands []Command) {
	t.Helper()
	if len(commands) == 0 {
		return
	}
	out := t.TempDir()
	args := []string{"--mount"}
	if os.Getuid() != 0 {
		args = append(args, "--map-root-user")
	}
	args = append(args, "bash", "tests/docs/run.sh")
	for _, c := range commands {
		run := c.Text
		if p := commandPlace(c.Text); p.Run != "" {
			run = p.Run
		}
		args = append(args, run)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "OUT="+out)
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, string(text))
	for n, c := range commands {
		said, err := os.ReadFile(filepath.Join(out, strconv.Itoa(n)))
		require.NoError(t, err)
		status, err := os.ReadFile(filepath.Join(out, strconv.Itoa(n)+".status"))
		require.NoError(t, err)
		exit, err := strconv.Atoi(strings.TrimSpace(string(status)))
		require.NoError(t, err)
		p := commandPlace(c.Text)
		right := exit == 0 || slices.Contains(p.Exits, exit) && strings.Contains(string(said), p.Prints)
		if !right {
			t.Errorf("line %d: %s\nended with %d; run it, list in places.go where it is run, or there why no test runs it:\n%s", c.Line, c.Text, exit, said)
		}
		t.Logf("line %d: %s: %d, %d bytes", c.Line, c.Text, exit, len(said))
	}
}
