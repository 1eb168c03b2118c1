//go:build lab

package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// bootableImage returns an image for the tests of the harness itself. They boot a guest for each case, so -short skips
// them, and make test-push runs them in turn with other long forms.
func bootableImage(t *testing.T) *Image {
	t.Helper()
	if testing.Short() {
		t.Skip("boots guests to test the harness alone: ROTATION=harness make test-push")
	}
	t.Parallel()
	return prepareImage(t, DefaultKernel)
}

func TestRunReportsHowTheProgramEnded(t *testing.T) {
	img := bootableImage(t)
	for _, c := range []struct {
		name, script string
		timeout      time.Duration
		wantCode     int
		wantErr      error
	}{
		{"exit status", "exit 3", 0, 3, nil},
		{"killed by a signal", "kill -KILL $$", 0, 137, nil},
		{"kernel panic", "echo c >/proc/sysrq-trigger; while :; do :; done", 0, 0, ErrPanic},
		// The shell waits without another program: the disk with the programs may be gone before the power is off.
		{"power lost", "echo o >/proc/sysrq-trigger; while :; do :; done", 0, 0, ErrLost},
		{"timeout", "sleep 600", 30 * time.Second, 0, ErrTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var stdout bytes.Buffer
			res, err := img.Run(t.Context(), Job{
				Path: "/bin/sh", Args: []string{"-c", `printf 'out\n'; printf 'err\r\n' >&2;` + c.script},
				Stdout: &stdout, Timeout: c.timeout,
			})
			if res.ExitCode != c.wantCode || !errors.Is(err, c.wantErr) {
				t.Errorf("want exit code %d and %v, got %d and %v", c.wantCode, c.wantErr, res.ExitCode, err)
			}
			// The guest's shell adds the line "Killed" after a program that a signal killed.
			if want := "out\nerr\r\n"; strings.TrimSuffix(stdout.String(), "Killed\n") != want {
				t.Errorf("want output %q, got %q", want, stdout.String())
			}
		})
	}
}

func TestAStalledBootIsTriedAgainAndAJobThatRanIsNot(t *testing.T) {
	stalled := &GuestError{Err: errStalled}
	for _, c := range []struct {
		name    string
		boots   []error
		stalled int
	}{
		{"boots at once", []error{nil}, 0},
		{"boots the second time", []error{stalled, nil}, 1},
		{"never boots", []error{stalled, stalled, stalled}, 2},
		{"panics", []error{&GuestError{Err: ErrPanic}}, 0},
		{"times out", []error{&GuestError{Err: ErrTimeout}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			boots := 0
			res, err := untilBooted(func() (Result, error) {
				boots++
				return Result{}, c.boots[boots-1]
			})
			if boots != len(c.boots) || res.Stalled != c.stalled || !errors.Is(err, c.boots[boots-1]) {
				t.Errorf("want %d boots, %d stalled and the last one's error, got %d, %d and %v",
					len(c.boots), c.stalled, boots, res.Stalled, err)
			}
		})
	}
}

func TestAGuestHasALimitToBootAndTheJobsOwnFromThenOn(t *testing.T) {
	g := &guest{outDir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(g.outDir, "lab"), 0o755); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if err := g.watch(t.Context(), time.Hour); !errors.Is(err, errStalled) || !errors.Is(err, ErrBoot) {
			t.Errorf("want a guest without init given up, got %v", err)
		}
		if err := os.WriteFile(g.file("booted"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		if err := g.watch(t.Context(), time.Hour); !errors.Is(err, ErrTimeout) || time.Since(started) < time.Hour {
			t.Errorf("want the job's own timeout after boot, got %v after %v", err, time.Since(started))
		}
	})
}

func TestRunReportsAGuestThatDoesNotBoot(t *testing.T) {
	img := *bootableImage(t)
	img.initramfs = filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(img.initramfs, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := img.Run(t.Context(), Job{Path: "/bin/true", Timeout: time.Minute})
	if !errors.Is(err, ErrBoot) || !strings.Contains(err.Error(), "Kernel panic") {
		t.Errorf("want ErrBoot with the kernel's log, got %v", err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	img := bootableImage(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := time.Now()
	// The context is cancelled at the first output of the program.
	_, err := img.Run(ctx, Job{
		Path: "/bin/sh", Args: []string{"-c", "echo up; sleep 600"},
		Stdout: writerFunc(func(b []byte) (int, error) { cancel(); return len(b), nil }),
	})
	if !errors.Is(err, context.Canceled) || time.Since(started) > time.Minute {
		t.Errorf("want context.Canceled soon, got %v after %v", err, time.Since(started))
	}
}

func TestGuestClockIsTheHosts(t *testing.T) {
	img := bootableImage(t)
	// A time gets older on its way to this test, so the least of several differences is the most exact one.
	var behind []time.Duration
	out, in := io.Pipe()
	go func() {
		_, err := img.Run(t.Context(), Job{
			Path: "/bin/sh", Args: []string{"-c", "for i in 1 2 3 4 5 6 7 8; do date +%s.%N; sleep 0.1; done"}, Stdout: in,
		})
		in.CloseWithError(err)
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		arrived := time.Now()
		printed, err := time.ParseDuration(lines.Text() + "s")
		if err != nil {
			t.Fatal(err)
		}
		behind = append(behind, arrived.Sub(time.Unix(0, printed.Nanoseconds())).Abs())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(behind) != 8 {
		t.Fatalf("want 8 times, got %v", behind)
	}
	t.Logf("the guest's clock and the host's are %v apart", behind)
	if slices.Min(behind) > time.Second {
		t.Errorf("want a clock within 1 s, got %v", slices.Min(behind))
	}
}

// If a guest measured its time stamp counter by itself, its clocks could have any speed.
func TestGuestClockHasTheHostsSpeed(t *testing.T) {
	img := bootableImage(t)
	khz, err := strconv.ParseFloat(img.tscKHz, 64)
	if err != nil || khz < 100_000 {
		t.Fatalf("want some GHz, got %s kHz, %v", img.tscKHz, err)
	}
	var log bytes.Buffer
	if _, err := img.Run(t.Context(), Job{Path: "/bin/sh", Args: []string{"-c", "dmesg"}, Stdout: &log}); err != nil {
		t.Fatal(err)
	}
	// The kernel measures its processor too, and names the counter in a line of its own if the two differ.
	want := regexp.MustCompile(fmt.Sprintf(`tsc: Detected %.3f MHz (TSC|processor)`, khz/1000))
	if !want.MatchString(log.String()) {
		t.Errorf("want %s in:\n%s", want, log.String())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
