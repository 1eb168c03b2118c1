package lab

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestScriptPassesEverythingUnchanged(t *testing.T) {
	job := Job{
		Path: "/bin/sh",
		Args: []string{"-c", `printf '%s|' "$PWD" "$GREETING" "$@"`, "sh", "it's", "$HOME", "two\nlines", ""},
		Env:  []string{"GREETING=a 'quoted' = $value"},
		Dir:  "/usr",
	}
	got, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", job.script(nil)).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "/usr|a 'quoted' = $value|it's|$HOME|two\nlines||"
	if string(got) != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

func TestJobRefusesPathsThatTheGuestHides(t *testing.T) {
	img := &Image{root: "/tmp/clone", cacheDir: "/run/cache/lab"}
	for path, want := range map[string]error{
		"":                errNoProgram,
		"a.test":          errNotAbsolute,
		"/tmp/a.test":     hiddenError{"/tmp/a.test", "/tmp"},
		"/tmp/clones/a":   hiddenError{"/tmp/clones/a", "/tmp"},
		"/tmp/clone/a":    nil,
		"/run/cache/lab":  nil,
		"/run/a":          hiddenError{"/run/a", "/run"},
		"/dev/shm/a.test": hiddenError{"/dev/shm/a.test", "/dev"},
		"/tmpfiles/a":     nil,
	} {
		err := Job{Path: path, Dir: "/"}.check(img)
		if !errors.Is(err, want) {
			t.Errorf("%q: want %v, got %v", path, want, err)
		}
	}
}

func TestOldStatusIsNotTakenForANewRuns(t *testing.T) {
	dir := t.TempDir()
	status := filepath.Join(dir, "lab", "status")
	if err := os.MkdirAll(filepath.Dir(status), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(status, []byte("0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := makeOutDir(dir, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(status); !os.IsNotExist(err) {
		t.Errorf("want no status, got %v", err)
	}
}

func TestTailShowsWhatLedToAPanic(t *testing.T) {
	log := filepath.Join(t.TempDir(), "kernel.log")
	text := "one\r\nthe reason\r\nKernel panic - not syncing\r\n" + strings.Repeat("trace\r\n", 100)
	if err := os.WriteFile(log, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := logTail(log, 10); !strings.Contains(got, "the reason\nKernel panic") {
		t.Errorf("want the reason, got %q", got)
	}
}
