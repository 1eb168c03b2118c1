package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/advice"
)

var code = regexp.MustCompile("`([^`]+)`")

// adviceProblems returns the errors in the advice of a text: commands that are not in the table of advice, and commands without their
// risk in the text. isCommand reports whether a piece of code in the text is a command.
func adviceProblems(text string, isCommand func(code string) bool) (wrong []string) {
	for _, found := range code.FindAllStringSubmatch(text, -1) {
		if !isCommand(found[1]) {
			continue
		}
		switch c, ok := advice.Find(found[1]); {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("%s: not in internal/agent/advice", found[1]))
		case !strings.Contains(text, c.Row().Risk):
			wrong = append(wrong, fmt.Sprintf("%s: want its risk: %s", found[1], c.Row().Risk))
		}
	}
	return wrong
}

// In the texts of alerts all code is a command, except these words.
func isNoField(code string) bool { return !slices.Contains([]string{"path"}, code) }

// startsProgram reports whether code begins with the name of a program, of the table or of those that could do harm.
func startsProgram(code string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(code, "sudo "), " ")
	others := []string{
		"opensm", "ibportstate", "mlxfwreset", "mlxconfig", "mlxlink", "mst", "flint", "devlink", "rmmod", "reboot", "shutdown", "kill", "gdb", "ip", "rdma",
		"systemctl", "service", "setpci", "tc", "nmcli", "netplan", "apt", "apt-get", "dnf", "yum", "zypper", "ethtool", "sysctl", "echo", "rm", "docker",
	}
	return slices.Contains(others, first) || slices.ContainsFunc(advice.Commands(), func(c advice.Command) bool {
		program, _, _ := strings.Cut(c.Row().Form, " ")
		return program == first
	})
}

func TestUnreviewedAdviceIsFound(t *testing.T) {
	for text, want := range map[string][]string{
		"The port waits for a subnet manager: `opensm -B` starts one.": {
			"opensm -B: not in internal/agent/advice",
		},
		"`rdma link add rxe0 type rxe netdev eth0` makes one.": {
			"rdma link add rxe0 type rxe netdev eth0: not in internal/agent/advice",
		},
		"Reset it: `devlink dev reload`.": {
			"devlink dev reload: want its risk: ends the connections of all applications on the device",
		},
		"Reset it: `devlink dev reload`, which ends the connections of all applications on the device.": nil,
		"`rdma link`, `lspci -nn` and `path` of rdma_fabric_peer.":                                      nil,
	} {
		require.Equal(t, want, adviceProblems(text, isNoField), text)
	}
	require.Equal(t, []string{"opensm -B: not in internal/agent/advice"}, adviceProblems("`opensm -B` or `no_device`", startsProgram))
}

func TestAlertsAdviseReviewedCommands(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/reference/alerts.md"))
	require.NoError(t, err)
	_, chapters, found := strings.Cut(string(text), "\n## ")
	require.True(t, found)
	for line := range strings.Lines(chapters) {
		for _, one := range adviceProblems(line, isNoField) {
			t.Errorf("%s\n%s", one, line)
		}
	}
}

func TestTroubleshootingAdvisesReviewedCommands(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/how-to/troubleshooting.md"))
	require.NoError(t, err)
	for _, one := range adviceProblems(string(text), startsProgram) {
		t.Error(one)
	}
	for _, c := range Commands(string(text)) {
		for _, one := range adviceProblems("`"+c.Text+"` "+string(text), func(code string) bool { return code == c.Text }) {
			t.Errorf("line %d: %s", c.Line, one)
		}
	}
}

// The doctor's commands are of the table by their type. This is about what its texts, and the plugin's log, advise besides.
func TestProgramsAdviseReviewedCommands(t *testing.T) {
	quoted := regexp.MustCompile("[`']([a-z][a-z-]+ [^`'%]+)[`']")
	var looked int
	for _, dir := range []string{"internal", "cmd", "plugins/inputs/rdma_events"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "internal/agent/advice") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				for _, found := range quoted.FindAllStringSubmatch(text, -1) {
					if !startsProgram(found[1]) {
						continue
					}
					looked++
					if _, ok := advice.Find(found[1]); !ok {
						t.Errorf("%s: %s: not in internal/agent/advice", path, found[1])
					}
				}
				return true
			})
			return nil
		}))
	}
	require.Positive(t, looked)
}
