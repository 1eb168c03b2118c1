package lab

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed boot/guest.sh
var guestScript string

// Job is one program to run in a separate guest. The zero value of every field except Path is usable.
type Job struct {
	// Path is the path of the program. The guest must see it: it is below the project's directory, or outside of
	// /tmp, /run, /dev, /proc and /sys.
	Path string
	Args []string
	// Env adds to the guest's environment, which has PATH, HOME, LANG, TERM and the LAB_* paths.
	Env []string
	// Dir is the working directory; empty means /.
	Dir string
	// OutDir is the directory that the guest sees as /out and may write to. Its subdirectory lab has the
	// files of the harness itself, for example kernel.log. Empty means a new directory in the cache, which is
	// kept for a day.
	OutDir string
	// Disk is the path of a disk image, which the guest has as /dev/vda; empty: it has no disk. What the guest has
	// flushed is in the file when the guest ends in any way.
	Disk string
	// Stdout gets the program's standard output and standard error, as they come.
	Stdout io.Writer
	// Memory is the guest's memory in MiB (default 1024), CPUs the number of its processors (default 2).
	Memory, CPUs int
	// Timeout counts from the start of the guest's init. Zero means ten minutes.
	Timeout time.Duration
}

func (j Job) withDefaults(cacheDir string) (Job, error) {
	if j.Memory == 0 {
		j.Memory = 1024
	}
	if j.CPUs == 0 {
		j.CPUs = 2
	}
	if j.Timeout == 0 {
		j.Timeout = 10 * time.Minute
	}
	if j.Dir == "" {
		j.Dir = "/"
	}
	if j.Stdout == nil {
		j.Stdout = io.Discard
	}
	var err error
	if j.OutDir, err = makeOutDir(j.OutDir, cacheDir); err != nil {
		return j, err
	}
	return j, nil
}

func (j Job) check(img *Image) error {
	if j.Path == "" {
		return fmt.Errorf("run guest: %w", errNoProgram)
	}
	for _, path := range []string{j.Path, j.Dir} {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("run guest: %s: %w", path, errNotAbsolute)
		}
		if err := img.shows(path); err != nil {
			return fmt.Errorf("run guest: %w", err)
		}
	}
	return nil
}

// shows returns an error for paths that the guest hides under its own file systems.
func (img *Image) shows(path string) error {
	for _, hidden := range []string{"/tmp", "/run"} {
		if isBelow(path, hidden) && !isBelow(path, img.root) && !isBelow(path, img.cacheDir) {
			return hiddenError{path, hidden}
		}
	}
	return visibleInGuest(path)
}

// visibleInGuest returns an error for paths in file systems that no guest can share with its host.
func visibleInGuest(path string) error {
	for _, hidden := range []string{"/dev", "/proc", "/sys"} {
		if isBelow(path, hidden) {
			return hiddenError{path, hidden}
		}
	}
	return nil
}

func isBelow(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// Why a guest cannot run a job.
var (
	errNoProgram   = errors.New("no program given")
	errNotAbsolute = errors.New("not an absolute path")
)

// hiddenError is the error for a path that a file system of the guest hides.
type hiddenError struct{ path, hidden string }

func (e hiddenError) Error() string {
	return fmt.Sprintf("%s: the guest has its own %s; use another directory", e.path, e.hidden)
}

// makeOutDir returns the absolute path of a directory with an empty subdirectory lab. The subdirectory is empty,
// because a status that an earlier run left would be taken for the status of this run.
func makeOutDir(dir, cacheDir string) (string, error) {
	var err error
	if dir == "" {
		runs := filepath.Join(cacheDir, "runs")
		if err = os.MkdirAll(runs, 0o755); err == nil {
			dir, err = os.MkdirTemp(runs, time.Now().Format("150405-"))
		}
	} else {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", fmt.Errorf("make output directory: %w", err)
	}
	lab := filepath.Join(dir, "lab")
	if err := errors.Join(os.RemoveAll(lab), os.MkdirAll(lab, 0o755)); err != nil {
		return "", fmt.Errorf("make output directory: %w", err)
	}
	return dir, nil
}

// script returns the script for the guest's shell. It runs the program by exec, so that the status of the shell
// is the program's own.
func (j Job) script(env []string) string {
	var b strings.Builder
	b.WriteString(exportLines(slices.Concat(env, j.Env)))
	fmt.Fprintf(&b, "cd %s || exit 126\nexec %s", shellQuote(j.Dir), shellQuote(j.Path))
	for _, arg := range j.Args {
		b.WriteString(" " + shellQuote(arg))
	}
	b.WriteString("\n")
	return b.String()
}

func exportLines(env []string) string {
	var b strings.Builder
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		fmt.Fprintf(&b, "export %s=%s\n", name, shellQuote(value))
	}
	return b.String()
}

func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
