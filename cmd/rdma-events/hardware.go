package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/agent"
	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/agent/inspect/doctor"
	"rdma_events/internal/agent/inspect/hardware"
	"rdma_events/internal/device/nldev"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/sys/process"
)

// hardwareTiming returns the time limits of the workers. They are longer than the plugin's, because nothing
// waits for this run, and a slow worker on a busy host must not count as stuck. If a worker cannot be killed in time,
// it counts as stuck in the kernel, and no further worker is started.
func hardwareTiming() process.Timing {
	return process.Timing{Start: 20 * time.Second, Grace: 5 * time.Second, Kill: 10 * time.Second}
}

// hardwareFlags are the flags of doctor -hardware.
type hardwareFlags struct {
	device, out, config string
	yes                 bool
}

// tryHardware tries one device and writes the file. It returns exitOK if the file was written, otherwise doctor.Fail.
func tryHardware(ctx context.Context, o hardwareFlags, stderr io.Writer) int {
	path, err := o.run(ctx, stderr)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = errors.New("interrupted: no file is written")
	}
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return int(doctor.Fail)
	}
	fmt.Fprintf(stderr, "%s is written; docs/reference/compatibility.md describes its content and where to send it\n", path)
	return exitOK
}

func (o hardwareFlags) run(ctx context.Context, stderr io.Writer) (path string, err error) {
	c, err := loadConfig(o.config)
	if err != nil {
		return "", err
	}
	sysfs := sysfs.New("/sys")
	switch {
	case !c.Simulated():
		if o.device, err = chooseDevice(sysfs, o.device); err != nil {
			return "", err
		}
		if until := releasedUntilFunc()(identifyDevice(o.device)); until != "" {
			return "", fmt.Errorf("%s is %s: it is not opened; rdma-events resume ends that", o.device, until)
		}
	case o.device == "":
		return "", errors.New("name the simulated device with -device")
	}
	program, err := workerPath(&c)
	if err != nil {
		return "", err
	}
	p, err := inspect.OpenWorkerProgram(program)
	if err != nil {
		return "", err
	}
	p.Timing = hardwareTiming()
	defer func() { _ = p.Close() }() // an error only leaves the program's own directory behind, which the next start removes
	return o.writeFile(func() (*hardware.Report, error) {
		return hardware.Run(ctx, o.newHost(ctx, c, sysfs, p, stderr), hardware.Options{Device: o.device, Yes: o.yes})
	})
}

// newHost returns this machine, or a simulation if the configuration selects it.
func (o hardwareFlags) newHost(ctx context.Context, c agent.Config, sysfs sysfs.FS, p *inspect.WorkerProgram, stderr io.Writer) *hardware.Host {
	h := &hardware.Host{
		Version: buildVersion(), Kernel: inspect.RunningKernel().Release, Sys: os.DirFS("/sys"), Sysfs: sysfs, Worker: p,
		Libraries: inspect.Files{FS: os.DirFS("/")}.Libraries, Use: nldev.QueryUse, Program: inspect.FindProgram, Mono: clock.Monotonic, Now: time.Now,
		Say: func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) },
	}
	if isTTY(os.Stdin) && isTTY(os.Stderr) {
		h.Ask = newAsker(ctx, os.Stdin, stderr)
	}
	if c.Simulated() {
		h.Simulated, h.Use = true, nil
		p.Request = c.Request()
		p.WorkerFiles = c.WorkerFiles(p.Request)
	}
	return h
}

// chooseDevice returns the named device if it exists, or the only device if none
// is named.
func chooseDevice(sysfs sysfs.FS, device string) (string, error) {
	names, err := sysfs.Devices()
	if err != nil {
		return "", fmt.Errorf("list devices: %w", err)
	}
	switch {
	case len(names) == 0:
		return "", errors.New("there is no RDMA device on this host")
	case device == "" && len(names) == 1:
		return names[0], nil
	case device == "":
		return "", fmt.Errorf("name one of the devices with -device: %s", strings.Join(names, ", "))
	}
	for _, name := range names {
		if name == device {
			return device, nil
		}
	}
	return "", fmt.Errorf("there is no device %q; there are: %s", device, strings.Join(names, ", "))
}

// writeFile writes the file atomically, with mode 0600. It creates a temporary file
// before the run, so that a directory without write permission is an error before
// the device is tried.
func (o hardwareFlags) writeFile(run func() (*hardware.Report, error)) (path string, err error) {
	if path, err = o.outputPath(); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".rdma-events-hardware-*") // has mode 0600
	if err != nil {
		return "", fmt.Errorf("write %s: %w; name another file with -out", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error is the one to report
		}
	}()
	r, err := run()
	if err != nil {
		return "", errors.Join(err, f.Close())
	}
	in := json.NewEncoder(f)
	in.SetIndent("", "  ")
	if err = errors.Join(in.Encode(r), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return path, nil
}

func (o hardwareFlags) outputPath() (string, error) {
	if o.out != "" {
		return o.out, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name the file: %w; name it with -out", err)
	}
	return fmt.Sprintf("rdma-events-hardware-%s-%s.json", filepath.Base(host), hardware.Label(o.device)), nil
}

// newAsker returns a function that asks a yes-or-no question on a terminal. Any answer other than "y" or "yes" means
// no, and so does the end of ctx. The goroutine that reads the terminal ends with the process, because such a read
// cannot be interrupted.
func newAsker(ctx context.Context, in io.Reader, out io.Writer) func(question string) bool {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return func(question string) bool {
		if ctx.Err() != nil {
			return false
		}
		fmt.Fprintf(out, "%s [y/N] ", question)
		select {
		case <-ctx.Done():
			fmt.Fprintln(out)
			return false
		case line, ok := <-lines:
			if !ok {
				fmt.Fprintln(out)
			}
			answer := strings.ToLower(strings.TrimSpace(line))
			return answer == "y" || answer == "yes"
		}
	}
}

// isTTY reports whether f is a terminal.
func isTTY(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
