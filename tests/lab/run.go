package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Result is the result of a program's run in a guest.
type Result struct {
	// ExitCode is the exit status of the program. It is 128 plus the signal's number if a signal killed the
	// program, as in a shell.
	ExitCode int
	// Boot is the time from qemu's start to the guest's init, Total the time from qemu's start to its end.
	Boot, Total time.Duration
	// Stalled counts the stalled boots before this one.
	Stalled int
	// OutDir is the host's path of /out. KernelLog is the path of a file in it.
	OutDir, KernelLog string
}

// Run boots a guest, runs the job's program in it and returns after qemu has ended. The error is nil if the
// program ended, with any exit code. Otherwise it is a *GuestError, or names something that is missing on the
// host. The guest is killed when ctx is done.
func (img *Image) Run(ctx context.Context, job Job) (Result, error) {
	job, err := job.withDefaults(img.cacheDir)
	if err != nil {
		return Result{}, err
	}
	if err := job.check(img); err != nil {
		return Result{}, err
	}
	g, remove, err := img.newGuest(job)
	if err != nil {
		return Result{}, err
	}
	defer remove()
	if err := g.writeInit("run", job.script(img.env())); err != nil {
		return Result{}, err
	}
	return untilBooted(func() (Result, error) { return g.bounded(ctx, job) })
}

const (
	// bootLimit is ten times the time that a boot takes on two busy cores.
	bootLimit = time.Minute
	// maxStalled is how often a guest is booted again after a stalled boot. An emulated machine sometimes stops
	// before its first program, once in hundreds of boots. The job has not started by then, so another boot does
	// not repeat the job.
	maxStalled = 2
)

// errStalled means that qemu ran and the guest's init did not start.
var errStalled = fmt.Errorf("%w within %v", ErrBoot, bootLimit)

func untilBooted(boot func() (Result, error)) (Result, error) {
	for stalled := 0; ; stalled++ {
		res, err := boot()
		res.Stalled = stalled
		if !errors.Is(err, errStalled) || stalled == maxStalled {
			return res, err
		}
	}
}

// bounded runs the guest within bootLimit until its init has started, and within the job's own timeout
// from then on.
func (g *guest) bounded(ctx context.Context, job Job) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() { cancel(g.watch(ctx, job.Timeout)) })
	watch.Go(func() { g.serveRequests(ctx) })
	// Qemu opens its output again, which would truncate a file. Inside a struct the writer is no *os.File, and
	// os/exec makes a pipe for it.
	return g.run(ctx, nil, struct{ io.Writer }{job.Stdout}, "run")
}

// watch waits until ctx is done or a limit has passed, and returns the cause as an error.
func (g *guest) watch(ctx context.Context, timeout time.Duration) error {
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	limit, exceeded := time.After(bootLimit), errStalled
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit:
			return exceeded
		case <-poll.C:
			if _, err := os.Stat(g.file("booted")); err == nil {
				limit, exceeded = time.After(timeout), fmt.Errorf("%w after %v", ErrTimeout, timeout)
				poll.Stop()
			}
		}
	}
}

// env returns the environment variables with the paths of the harness's own tools.
func (img *Image) env() []string {
	return []string{
		"LAB_APPS=" + img.apps,
		"LAB_EVINJECT=" + img.evinject,
		"LAB_EXTSTATE=" + img.extState,
		"LAB_FORGER=" + img.forger,
		"LAB_LINKFLAP=" + img.linkflap,
		"LAB_PVINJECT=" + img.pvrdma.inject,
		"LAB_PVRDMA=" + img.pvrdma.driver,
		"LAB_SIW=" + img.siw,
	}
}

// guest is one boot.
type guest struct {
	image        *Image
	outDir       string
	memory, cpus int
	disk         string // "": none
	sockets      string // the directory of qemu's sockets
}

// newGuest makes what a guest needs on the host besides its output directory. The caller calls remove after the last boot.
func (img *Image) newGuest(job Job) (g *guest, remove func(), err error) {
	sockets, err := os.MkdirTemp("", "lab-") // the path of a socket is short (unix(7))
	if err != nil {
		return nil, nil, fmt.Errorf("make directory for sockets: %w", err)
	}
	g = &guest{image: img, outDir: job.OutDir, memory: job.Memory, cpus: job.CPUs, disk: job.Disk, sockets: sockets}
	if img.pvrdma.host != "" {
		err = os.Mkdir(g.file("pvhost"), 0o755)
	}
	if err != nil {
		_ = os.RemoveAll(sockets)
		return nil, nil, fmt.Errorf("make directory for pvhost: %w", err)
	}
	return g, func() { _ = os.RemoveAll(sockets) }, nil
}

func (g *guest) file(name string) string { return filepath.Join(g.outDir, "lab", name) }

// monitor returns the path of the socket of qemu's monitor.
func (g *guest) monitor() string { return filepath.Join(g.sockets, "qmp") }

func (g *guest) writeInit(mode, job string) error {
	head := exportLines([]string{
		"LAB_MODULES=" + g.image.kernel.modules(),
		"LAB_MODE=" + mode,
		"LAB_ROOT=" + g.image.root,
		"LAB_CACHE=" + filepath.Dir(g.image.cacheDir),
	})
	if err := os.WriteFile(g.file("init"), []byte(head+guestScript), 0o755); err != nil {
		return fmt.Errorf("write guest init: %w", err)
	}
	if err := os.WriteFile(g.file("job"), []byte(job), 0o755); err != nil {
		return fmt.Errorf("write guest job: %w", err)
	}
	return nil
}

func (g *guest) run(ctx context.Context, stdin io.Reader, stdout io.Writer, mode string) (Result, error) {
	var complaints bytes.Buffer
	started := time.Now()
	qemuErr := runQemu(ctx, g.qemuArgs(mode), g.qemuEnv(), stdin, stdout, &complaints, mode == "shell")
	res := Result{Total: time.Since(started), OutDir: g.outDir, KernelLog: g.file("kernel.log")}
	// The file's time is the host's time when the guest made it.
	if info, err := os.Stat(g.file("booted")); err == nil {
		res.Boot = info.ModTime().Sub(started)
	}
	code, err := g.status()
	if err == nil {
		res.ExitCode = code
		return res, nil
	}
	return res, g.failure(ctx, res, qemuErr, strings.TrimSpace(complaints.String()))
}

func (g *guest) status() (int, error) {
	b, err := os.ReadFile(g.file("status"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

func (g *guest) failure(ctx context.Context, res Result, qemuErr error, complaints string) error {
	e := &GuestError{Stage: "running", Log: res.KernelLog, Tail: logTail(res.KernelLog, 30), Qemu: complaints}
	if res.Boot == 0 {
		e.Stage = "booting"
	}
	switch {
	case ctx.Err() != nil:
		e.Err = context.Cause(ctx)
	case res.Boot == 0:
		e.Err = ErrBoot
	case isPanic(e.Tail):
		e.Err = ErrPanic
	default:
		e.Err = ErrLost
	}
	var notStarted *startError
	if errors.As(qemuErr, &notStarted) {
		return qemuErr
	}
	return e
}
