package lab

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const qemuProgram = "qemu-system-x86_64"

// cmdline: the first clock of an emulated guest costs 890 ns a reading, the TSC 79. An oops ends the
// guest, because a test that passed on a damaged kernel says nothing.
const cmdline = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off tsc=reliable clocksource=tsc"

// qemuArgs: software emulation, because /dev/kvm may exist and yet not work. The kernel's log has the
// serial port; programs have a virtio port of their own, which is faster and changes no byte.
func (g *guest) qemuArgs(mode string) []string {
	// As a file, because a stdio channel whose input is at its end counts as disconnected, and writes block.
	channel, output := "file,id=out,path=/dev/stdout", "virtserialport,chardev=out,name=lab.output"
	if mode == "shell" {
		channel, output = "stdio,id=out,signal=off", "virtconsole,chardev=out"
	}
	args := []string{
		"-accel", "tcg,thread=multi", "-cpu", "max",
		"-smp", strconv.Itoa(g.cpus), "-m", strconv.Itoa(g.memory),
		"-nodefaults", "-no-reboot", "-display", "none",
		"-rtc", "base=utc",
		"-chardev", "file,id=klog,path=" + qemuQuote(g.file("kernel.log")),
		"-serial", "chardev:klog",
		"-device", "virtio-serial-pci",
		"-chardev", channel,
		"-device", output,
		"-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap",
		"-virtfs", "local,path=" + qemuQuote(g.outDir) + ",mount_tag=out,security_model=none,multidevs=remap",
		"-kernel", g.image.kernel.image(), "-initrd", g.image.initramfs,
	}
	kernel := cmdline + " tsc_early_khz=" + g.image.tscKHz
	if g.image.layer == "" {
		return append(args, "-append", kernel)
	}
	// The kernel hands what it does not know to init, as environment.
	return append(args, "-append", kernel+" LAB_LAYER=yes",
		"-virtfs", "local,path="+qemuQuote(g.image.layer)+",mount_tag=layer,security_model=none,readonly=on,multidevs=remap")
}

// qemuQuote doubles commas, which end an option's value.
func qemuQuote(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// startError says that there was no qemu process at all.
type startError struct{ err error }

func (e *startError) Error() string { return fmt.Sprintf("start %s: %v", qemuProgram, e.err) }
func (e *startError) Unwrap() error { return e.err }

// runQemu runs qemu to its end. Its goroutine keeps one thread to itself, because the kernel sends the
// parent-death signal when the thread that forked ends, not the process.
func runQemu(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, foreground bool) error {
	cmd := exec.CommandContext(ctx, qemuProgram, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.WaitDelay = 5 * time.Second
	// A background process group could not set the terminal up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: !foreground}
	if !foreground {
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			done <- &startError{err}
			return
		}
		done <- cmd.Wait()
	}()
	return <-done
}
