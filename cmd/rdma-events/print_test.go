package main

import (
	"bytes"
	_ "embed"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"

	"rdma_events/docs/document"
	"rdma_events/tests/prerequisite"
)

var update = flag.Bool("update", false, "write the golden files anew")

// runPrint returns the standard output of a command.
func runPrint(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, runCommand(args, &stdout, &stderr), "%v: %s", args, stderr.String())
	return stdout.String()
}

func TestHelpOfAllCommands(t *testing.T) {
	var b strings.Builder
	b.WriteString(runPrint(t, "help"))
	for _, c := range subcommands() {
		b.WriteString("\n--- help " + c.name + "\n" + runPrint(t, "help", c.name))
		require.Equal(t, runPrint(t, "help", c.name), runPrint(t, c.name, "--help"))
	}
	const golden = "testdata/help.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

// commandsDocument is the page on commands, whose generated part has the help of all commands.
const commandsDocument = "../../docs/reference/commands.md"

//go:embed testdata/commands.md.tmpl
var commandsTemplate string

// TestCommandsDocumentHasTheHelp compares docs/reference/commands.md with the help; -update rewrites it.
func TestCommandsDocumentHasTheHelp(t *testing.T) {
	page := template.Must(template.New("commands").Funcs(template.FuncMap{"sentence": capitalize, "trim": strings.TrimSpace}).Parse(commandsTemplate))
	var b strings.Builder
	require.NoError(t, page.Execute(&b, struct {
		Plugin   []describedFlag
		Commands []describedCommand
	}{describeFlags(new(pluginFlags).define(io.Discard)), describeCommands()}))
	if *update {
		require.NoError(t, document.Rewrite(commandsDocument, "commands", b.String()))
	}
	have, err := os.ReadFile(commandsDocument)
	require.NoError(t, err)
	want, err := document.Replace(string(have), "commands", b.String())
	require.NoError(t, err)
	require.Equal(t, want, string(have), "go test ./cmd/rdma-events -run Help -update rewrites it")
}

// toolPath returns the path of a program that checks the output of the command print.
func toolPath(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		prerequisite.Missing(t, prerequisite.Readers, name+" is missing, which reads a text of the command print; scripts/packages.sh test installs it")
	}
	return path
}

// bold matches the sequences that make a terminal print a character in bold.
var bold = regexp.MustCompile(`.\x08`)

func TestMandocFindsNoFaultWithTheManPage(t *testing.T) {
	mandoc := toolPath(t, "mandoc")
	path := filepath.Join(t.TempDir(), "rdma-events.1")
	require.NoError(t, os.WriteFile(path, []byte(runPrint(t, "print", "man")), 0o600))
	said, err := exec.CommandContext(t.Context(), mandoc, "-T", "lint", "-W", "style", path).CombinedOutput()
	for line := range strings.Lines(string(said)) {
		// The pages of other packages may not be on this host, nor the index of its pages.
		if !strings.Contains(line, "referenced manual not found") && !strings.Contains(line, "outdated mandoc.db") {
			t.Error(line)
		}
	}
	require.NotContains(t, string(said), "ERROR", "%v", err)
	text, err := exec.CommandContext(t.Context(), mandoc, "-T", "utf8", path).Output()
	require.NoError(t, err)
	for _, c := range subcommands() {
		require.Contains(t, bold.ReplaceAllString(string(text), ""), "\n   "+c.name+"\n")
	}
}

func TestBashCompletesCommandsFlagsAndAlerts(t *testing.T) {
	bash := toolPath(t, "bash")
	for line, want := range map[string]string{
		"rdma-events st":                        "status",
		"rdma-events -poll_interval_":           "-poll_interval_disabled",
		"rdma-events status -de":                "-device",
		"rdma-events health -format n":          "npd",
		"rdma-events explain port-":             "port-down port-flapping",
		"rdma-events help sta":                  "status",
		"rdma-events print z":                   "zsh",
		"rdma-events assets -engine prometheus": "prometheus",
	} {
		script := runPrint(t, "print", "bash") + `
COMP_WORDS=(` + line + `); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _rdma_events; echo "${COMPREPLY[*]}"`
		out, err := exec.CommandContext(t.Context(), bash, "--norc", "-euo", "pipefail", "-c", script).CombinedOutput()
		require.NoError(t, err, "%s: %s", line, out)
		require.Equal(t, want, strings.TrimSpace(string(out)), line)
	}
}

func TestZshLoadsItsCompletionAndCompletes(t *testing.T) {
	zsh := toolPath(t, "zsh")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "_rdma-events"), []byte(runPrint(t, "print", "zsh")), 0o600))
	// zpty gives zsh a terminal of its own, since it completes nothing without one (zshmodules(1)).
	script := `
zmodload zsh/zpty
zpty -b inner zsh -f -i
ask() { zpty -w inner "$1"; local seen= chunk; while zpty -r inner chunk "*$2*"; do seen+=$chunk; [[ $seen = *$2* ]] && break; done; print -r -- "$seen"; }
ask "PROMPT= ; fpath=(` + dir + ` \$fpath); autoload -U compinit; compinit -D -u; print comp=\$_comps[rdma-events]." "comp=_rdma-events."
zpty -w -n inner $'rdma-events explain link-d\t'
while zpty -r inner chunk "*link-disagrees*"; do print -r -- "$chunk"; [[ $chunk = *link-disagrees* ]] && break; done
zpty -w -n inner $'\x15rdma-events status -devi\t'
while zpty -r inner chunk "*-device*"; do print -r -- "$chunk"; [[ $chunk = *-device* ]] && break; done
zpty -d inner`
	out, err := exec.CommandContext(t.Context(), zsh, "-f", "-c", script).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "comp=_rdma-events.")
	require.Contains(t, string(out), "link-disagrees")
	require.Contains(t, string(out), "-device")
}
