package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"rdma_events/internal/agent"
	"rdma_events/internal/agent/release"
	"rdma_events/internal/agent/statusfile"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

const releaseAbout = `Has the running plugin close its devices, so that a driver can be unloaded, a card
reset or a PCI function given away. The command returns when they are closed. None
is opened before rdma-events resume or the end of the time, also no device that
appears meanwhile, and not after a restart of Telegraf or of the plugin. A release
that lasts longer goes on. Root may do it, and the user that the plugin runs as.
Exit status 0: all are closed; 2: not all are, and the lines say which.
`

const resumeAbout = `Ends what rdma-events release began: the devices are watched again.
`

// defaultRelease is how long devices are released for, and letGoTime how long the command waits for the plugins. A worker is
// killed after 3 s at most, the limit of the option shutdown_timeout. othersTime is how long it waits for programs that look
// for releases every second.
const (
	defaultRelease = 10 * time.Minute
	letGoTime      = 20 * time.Second
	othersTime     = 5 * time.Second
)

// releaseFlags are the flags of the subcommands release and resume.
type releaseFlags struct {
	resume      bool
	device, dir string
	span        time.Duration

	ended bool        // there was a release, which resume has ended
	set   release.Set // the releases of dir after write
}

func (o *releaseFlags) define(stderr io.Writer) *flag.FlagSet {
	name, does := "release", "close"
	if o.resume {
		name, does = "resume", "watch again"
	}
	set := newFlags(name, stderr)
	set.StringVar(&o.device, "device", "", does+" only the device of this name")
	set.StringVar(&o.dir, "dir", "", dirText)
	if !o.resume {
		set.DurationVar(&o.span, "for", defaultRelease, "how long, 24h at most")
	}
	return set
}

// releaseDevices runs the subcommand release.
func releaseDevices(args []string, stdout, stderr io.Writer) int {
	return (&releaseFlags{}).run(args, stdout, stderr)
}

// resumeDevices runs the subcommand resume.
func resumeDevices(args []string, stdout, stderr io.Writer) int {
	return (&releaseFlags{resume: true}).run(args, stdout, stderr)
}

func (o *releaseFlags) run(args []string, stdout, stderr io.Writer) int {
	set := o.define(stderr)
	if code, ok := parse(set, args, "name a device with -device"); !ok {
		return code
	}
	switch {
	case o.device != "" && !agent.IsDevice(o.device):
		return misused(set, fmt.Sprintf("-device %q is no name of a device: without -device, all are released", o.device))
	case !o.resume && (o.span < time.Second || o.span > release.MaxDuration):
		return misused(set, fmt.Sprintf("-for %s is not allowed: want 1s to %s", o.span, release.MaxDuration))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, letGoTime)
	defer cancel()
	err := o.findDir()
	if err == nil {
		err = o.write()
	}
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("only root and the user that the plugin runs as may do this: %w", err)
	}
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	}
	if code := o.report(release.AskPlugins(ctx, o.dir), stdout, stderr); code != exitOK || o.resume {
		return code
	}
	return o.reportOthers(ctx, stderr)
}

// reportOthers waits for workers of programs that were not asked, as a plugin without a directory and rdma-events watch, and says
// which go on. It returns the exit status.
func (o *releaseFlags) reportOthers(ctx context.Context, stderr io.Writer) int {
	ctx, cancel := context.WithTimeout(ctx, othersTime)
	defer cancel()
	held := release.AwaitHolders(ctx, "/", agent.WorkerName, func(device string) bool {
		_, ok := o.set.Until(identify(device), clock.Boot())
		return ok && o.concerns(device)
	})
	code := exitOK
	for _, h := range held {
		fmt.Fprintf(stderr, "E! %s: NOT closed: process %d has it open, a worker of a program that does not read releases in %s\n", h.Device, h.PID, o.dir)
		code = exitFailed
	}
	return code
}

// findDir finds the directory of the plugins' status. Root makes it where no plugin has run since the boot: one that starts
// reads it.
func (o *releaseFlags) findDir() error {
	if o.dir != "" {
		return nil
	}
	dirs := statusfile.Dirs()
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			o.dir = dir
			return nil
		}
	}
	o.dir = dirs[0]
	switch {
	case o.resume: // there is nothing to end
		return nil
	case os.Geteuid() != 0:
		return fmt.Errorf("no plugin has run here: there is no %s", strings.Join(dirs, ", nor "))
	}
	if err := os.Mkdir(o.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory for releases: %w", err)
	}
	return nil
}

// write writes or removes the file, which counts for plugins that start later, too.
func (o *releaseFlags) write() error {
	boot, now := release.BootID(), clock.Boot()
	set, _ := release.Read([]string{o.dir}, boot, now) // what is not valid releases nothing
	e, err := o.entry(set, now), error(nil)
	_, all := set.All(now)
	switch {
	case !o.resume || o.device != "" && all:
		err = release.Write(o.dir, boot, e)
	case o.device == "":
		o.ended = set.Active(now)
		err = release.Remove(o.dir)
	default:
		err = release.RemoveDevice(o.dir, o.device)
	}
	o.set, _ = release.Read([]string{o.dir}, boot, now)
	return err
}

// entry returns what release writes, beside the releases of set: one that lasts longer goes on.
func (o *releaseFlags) entry(set release.Set, now int64) release.Entry {
	e := release.Entry{Device: o.device}
	if o.device != "" {
		f := identify(o.device)
		e.NodeGUID, e.PCI = f.NodeGUID, f.PCI
	}
	if !o.resume {
		e.Until = max(now+int64(o.span), endOf(set, o.device, now))
	}
	return e
}

// endOf returns when the releases of set that concern a device end, in ns of CLOCK_BOOTTIME. For device "" it is the end of the
// release of all devices.
func endOf(set release.Set, device string, now int64) int64 {
	until, _ := set.All(now)
	if device != "" {
		until, _ = set.Until(identify(device), now)
	}
	return until
}

// formatEnd returns the local time at which the release of a device ends, or that of all devices for "".
func (o *releaseFlags) formatEnd(device string) string {
	now := clock.Boot()
	until := endOf(o.set, device, now)
	return time.Now().Add(time.Duration(until - now)).Format(time.DateTime)
}

// report says how the devices are now, one a line, and returns the exit status.
func (o *releaseFlags) report(plugins []release.Plugin, stdout, stderr io.Writer) int {
	code := exitOK
	var named []string
	for i := range plugins {
		p := &plugins[i]
		if p.Err != nil {
			fmt.Fprintf(stderr, "E! plugin %d: %v\n", p.PID, p.Err)
			code = exitFailed
			continue
		}
		for _, d := range p.Released {
			switch {
			case !o.concerns(d.Device):
				continue
			case o.resume:
				fmt.Fprintf(stderr, "E! %s: still released, by another directory than %s\n", d.Device, o.dir)
				code = exitFailed
			case d.Open:
				fmt.Fprintf(stderr, "E! %s: NOT closed: %s\n", d.Device, d.Held)
				code = exitFailed
			default:
				fmt.Fprintf(stdout, "%s: closed, and released until %s\n", d.Device, o.formatEnd(d.Device))
			}
			named = append(named, d.Device)
		}
		for _, device := range p.Resumed {
			if o.resume && o.concerns(device) {
				fmt.Fprintf(stdout, "%s: watched again\n", device)
				named = append(named, device)
			}
		}
	}
	if code == exitOK {
		fmt.Fprint(stdout, o.summary(plugins, named))
	}
	return code
}

func (o *releaseFlags) concerns(device string) bool { return o.device == "" || o.device == device }

// summary says what is so beyond the devices that were named, "" for nothing.
func (o *releaseFlags) summary(plugins []release.Plugin, named []string) string {
	until := o.formatEnd(o.device)
	switch {
	case o.resume && len(named) == 0 && o.ended:
		return "the release is ended; none of its devices is here now\n"
	case o.resume && len(named) == 0:
		return "no device was released\n"
	case o.resume:
		return ""
	case len(plugins) == 0:
		return fmt.Sprintf("no plugin runs with its status in %s; one that starts opens no released device before %s\n", o.dir, until)
	case o.device == "":
		return fmt.Sprintf("all devices are released until %s, also those that appear before; rdma-events resume ends it\n", until)
	case !slices.Contains(named, o.device):
		return fmt.Sprintf("%s: not open here; it is not opened before %s\n", o.device, until)
	}
	return ""
}

// identify returns what is known of a device of this host without asking its driver.
func identify(device string) verbs.Found {
	devices := sysfs.New("/sys")
	f, _ := devices.Function(device) // without the network devices, if they cannot be listed
	f.NodeGUID = devices.NodeGUID(device)
	return f
}

// releasedDevices returns a function that says of a device of this host until when it is released, "" for one that is not.
func releasedDevices() func(f verbs.Found) string {
	k := release.NewKeeper(release.Config{Dirs: release.UniqueDirs(statusfile.Dirs()...), Now: clock.Boot, Boot: release.BootID()})
	return func(f verbs.Found) string {
		until, ok := k.Until(f)
		if !ok {
			return ""
		}
		left := time.Duration(until - clock.Boot())
		return fmt.Sprintf("released until %s", time.Now().Add(left).Format(time.DateTime))
	}
}
