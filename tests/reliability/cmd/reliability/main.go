// Command reliability writes docs/reliability.md from the log of make test-full.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"rdma_events/tests/reliability"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: reliability LOG docs/reliability.md")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, "reliability:", err)
		os.Exit(1)
	}
}

func write(log, document string, now time.Time) error {
	text, err := os.ReadFile(log)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	run := reliability.Read(string(text))
	switch {
	case len(run.Failed) > 0:
		return fmt.Errorf("%s: %d tests failed, the first is %s; the document is about runs that pass", log, len(run.Failed), run.Failed[0])
	case run.Passed == 0 || len(run.Figures) == 0:
		return errors.New("no test passed, or none printed a figure: is this the log of make test-full?")
	}
	where := fmt.Sprintf("%s, %d processors", now.UTC().Format(time.DateOnly), runtime.NumCPU())
	if commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output(); err == nil {
		where += ", commit " + strings.TrimSpace(string(commit))
	}
	if err := os.WriteFile(document, []byte(reliability.Table()+reliability.RunSection(&run, where)), 0o644); err != nil {
		return fmt.Errorf("write document: %w", err)
	}
	return nil
}
