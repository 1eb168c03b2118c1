package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rdma_events/tests/rig"
)

// By the stubs all packages are missing, and that of apt-get installs nothing but prints as apt-get does.
func TestMakeRunPrintsOnlyLineProtocol(t *testing.T) {
	t.Parallel()
	stubs := t.TempDir()
	for name, script := range map[string]string{
		"dpkg-query": "exit 1",
		"apt-get":    "echo 'Reading package lists...'; echo \"$@\" >>" + filepath.Join(stubs, "ran"),
		"sudo":       `[ "$1" != -n ] || shift; exec "$@"`,
	} {
		if err := os.WriteFile(filepath.Join(stubs, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	rig.Program(t, "TELEGRAF_BIN", "tools/telegraf") // otherwise make builds it, which takes minutes
	cmd := exec.CommandContext(t.Context(), "make", "run", "FOR=4s")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "PATH="+stubs+":"+os.Getenv("PATH"))
	// With these variables, make acts as a part of the make that calls it and prints the directory that it enters.
	cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool {
		return strings.HasPrefix(v, "MAKEFLAGS=") || strings.HasPrefix(v, "MAKELEVEL=") || strings.HasPrefix(v, "MFLAGS=")
	})
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("make run: %v\n%s", err, stderr.String())
	}
	if ran, err := os.ReadFile(filepath.Join(stubs, "ran")); err != nil || !bytes.Contains(ran, []byte("install")) {
		t.Errorf("want packages installed by apt-get, got %q, %v", ran, err)
	}
	if !bytes.Contains(stderr.Bytes(), []byte("Reading package lists...")) {
		t.Errorf("want what apt-get prints on standard error, got:\n%s", stderr.String())
	}
	points, err := rig.Parse(stdout.Bytes())
	if err != nil || len(points) == 0 {
		t.Errorf("want lines of line protocol alone, got %d and %v:\n%s", len(points), err, stdout.String())
	}
}
