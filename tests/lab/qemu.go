package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const qemuProgram = "qemu-system-x86_64"

// cmdline is the guest kernel's command line. It selects the TSC, which takes 79 ns per reading: the default clock
// of an emulated guest takes 890 ns. An oops ends the guest, because a test that passes on a damaged kernel proves
// nothing.
const cmdline = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off tsc=reliable clocksource=tsc"

// qemuArgs returns qemu's arguments. They select software emulation, because /dev/kvm may exist and yet not work.
// The kernel's log uses the serial port. Programs use a virtio port, which is faster and changes no byte.
func (g *guest) qemuArgs(mode string) []string {
	// The channel is a file: a stdio channel counts as disconnected when its input is at its end, and writes block.
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
		"-qmp", "unix:" + qemuQuote(g.monitor()) + ",server=on,wait=off",
	}
	if g.image.pvrdma.host != "" {
		args = append(args, g.pvrdmaArgs()...)
	}
	if g.disk != "" {
		args = append(args, "-drive", "file="+qemuQuote(g.disk)+",format=raw,if=none,id=disk", "-device", "virtio-blk-pci,drive=disk")
	}
	kernel := cmdline + " tsc_early_khz=" + g.image.tscKHz
	if g.image.layer == "" {
		return append(args, "-append", kernel)
	}
	// The kernel passes parameters that it does not know to init, as environment variables.
	return append(args, "-append", kernel+" LAB_LAYER=yes",
		"-virtfs", "local,path="+qemuQuote(g.image.layer)+",mount_tag=layer,security_model=none,readonly=on,multidevs=remap")
}

// qemuQuote doubles commas, which end an option's value.
func qemuQuote(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// startError means that qemu could not be started.
type startError struct{ err error }

func (e *startError) Error() string { return fmt.Sprintf("start %s: %v", qemuProgram, e.err) }
func (e *startError) Unwrap() error { return e.err }

// runQemu runs qemu to its end. Its goroutine is locked to a thread, because the kernel sends the parent-death
// signal when the thread that forked ends, and not when the process ends. env adds to this process's environment.
func runQemu(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer, foreground bool) error {
	cmd := exec.CommandContext(ctx, qemuProgram, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.WaitDelay = 5 * time.Second
	// A background process group could not set up the terminal.
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
