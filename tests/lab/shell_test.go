//go:build lab

package lab

import (
	"os/exec"
	"strings"
	"testing"
)

// The test runs the command of make lab, with input as a person types it.
func TestAPersonGetsAPromptBesideADevice(t *testing.T) {
	bootableImage(t)
	cmd := exec.CommandContext(t.Context(), "go", "run", "./tests/lab/cmd/lab", "shell")
	cmd.Dir = projectDir(t)
	cmd.Stdin = strings.NewReader("cat /sys/class/infiniband/rxe0/ports/1/state\nexit 7\n")
	out, err := cmd.CombinedOutput()
	if !strings.Contains(string(out), "4: ACTIVE") || !strings.Contains(string(out), "exit status 7") {
		t.Errorf("want the state of rxe0 and the status of the shell, got %v:\n%s", err, out)
	}
}
