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

const releaseAbout = `Makes the running plugin close its devices, so that a driver can be unloaded, a
card reset or a PCI function given away. The command returns when the devices are
closed. The plugin opens no device, also no new one, until rdma-events resume or
the end of the time, even if Telegraf or the plugin is restarted. An earlier
release that lasts longer stays in effect. Only root and the plugin's user may run
the command.
Exit status 0: all devices are closed; 2: the named devices are not.
`

const resumeAbout = `Ends a release by rdma-events release: the plugin watches the devices again.
`

// defaultReleaseTime is the default duration of a release. pluginWaitTime is how long the command waits for the
// plugins; a worker is killed after 3 s at most, the limit of the option shutdown_timeout. otherWaitTime is how long it
// waits for other programs, which check for releases every second.
const (
	defaultReleaseTime = 10 * time.Minute
	pluginWaitTime     = 20 * time.Second
	otherWaitTime      = 5 * time.Second
)

// releaseFlags are the flags of the subcommands release and resume.
type releaseFlags struct {
	resume      bool
	device, dir string
	duration    time.Duration

	hadRelease bool        // resume has ended a release
	set        release.Set // the releases of dir after writeRelease
}

func (o *releaseFlags) define(stderr io.Writer) *flag.FlagSet {
	name, does := "release", "close"
	if o.resume {
		name, does = "resume", "watch again"
	}
	set := newFlags(name, stderr)
	deviceVar(set, &o.device, does+" only the device with this `name`")
	set.StringVar(&o.dir, "dir", "", dirText)
	if !o.resume {
		set.DurationVar(&o.duration, "for", defaultReleaseTime, "duration of the release, at most 24h")
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
	if code, ok := parseFlags(set, args, "name a device with -device"); !ok {
		return code
	}
	switch {
	case o.device != "" && !agent.IsDevice(o.device):
		return reportMisuse(set, fmt.Sprintf("-device %q is not the name of a device: without -device, all are released", o.device))
	case !o.resume && (o.duration < time.Second || o.duration > release.MaxDuration):
		return reportMisuse(set, fmt.Sprintf("-for %s is not allowed: want 1s to %s", o.duration, release.MaxDuration))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, pluginWaitTime)
	defer cancel()
	err := o.findDir()
	if err == nil {
		err = o.writeRelease()
	}
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("only root and the plugin's user may do this: %w", err)
	}
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	}
	if code := o.reportPlugins(release.AskPlugins(ctx, o.dir), stdout, stderr); code != exitOK || o.resume {
		return code
	}
	return o.reportOthers(ctx, stderr)
}

// reportOthers waits for workers of programs that AskPlugins does not reach, such as a plugin without a directory or
// rdma-events watch. It prints which of them still have a device open, and returns the exit status.
func (o *releaseFlags) reportOthers(ctx context.Context, stderr io.Writer) int {
	ctx, cancel := context.WithTimeout(ctx, otherWaitTime)
	defer cancel()
	held := release.AwaitHolders(ctx, "/", agent.WorkerName, func(device string) bool {
		_, ok := o.set.Until(identifyDevice(device), clock.Boot())
		return ok && o.includes(device)
	})
	code := exitOK
	for _, h := range held {
		fmt.Fprintf(stderr, "E! %s: NOT closed: process %d has it open, a worker of a program that does not read releases in %s\n", h.Device, h.PID, o.dir)
		code = exitFailed
	}
	return code
}

// findDir finds the directory of the status files. If no plugin has run since the boot, root creates it: a plugin that
// starts reads it.
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

// writeRelease writes or removes the file. It also applies to plugins that start later.
func (o *releaseFlags) writeRelease() error {
	boot, now := release.BootID(), clock.Boot()
	set, _ := release.Read([]string{o.dir}, boot, now) // invalid files release nothing
	e, err := o.newEntry(set, now), error(nil)
	_, all := set.All(now)
	switch {
	case !o.resume || o.device != "" && all:
		err = release.Write(o.dir, boot, e)
	case o.device == "":
		o.hadRelease = set.Active(now)
		err = release.Remove(o.dir)
	default:
		err = release.RemoveDevice(o.dir, o.device)
	}
	var invalid error
	o.set, invalid = release.Read([]string{o.dir}, boot, now)
	if err == nil && !o.resume && !o.set.Active(now) {
		return invalid // a plugin does not read the directory either
	}
	return err
}

// newEntry returns the entry to write. If an existing release in set lasts longer, the entry lasts as long.
func (o *releaseFlags) newEntry(set release.Set, now int64) release.Entry {
	e := release.Entry{Device: o.device}
	if o.device != "" {
		f := identifyDevice(o.device)
		e.NodeGUID, e.PCI = f.NodeGUID, f.PCI
	}
	if !o.resume {
		e.Until = max(now+int64(o.duration), releaseEnd(set, o.device, now))
	}
	return e
}

// releaseEnd returns the end of the releases in set that apply to a device, in ns of CLOCK_BOOTTIME. For device "" it
// is the end of the release of all devices.
func releaseEnd(set release.Set, device string, now int64) int64 {
	until, _ := set.All(now)
	if device != "" {
		until, _ = set.Until(identifyDevice(device), now)
	}
	return until
}

// formatEnd returns the local time at which the release of a device, or of all devices for "", ends.
func (o *releaseFlags) formatEnd(device string) string {
	now := clock.Boot()
	until := releaseEnd(o.set, device, now)
	return time.Now().Add(time.Duration(until - now)).Format(time.DateTime)
}

// reportPlugins prints the state of the devices, one per line, and returns the exit status.
func (o *releaseFlags) reportPlugins(plugins []release.Plugin, stdout, stderr io.Writer) int {
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
			case !o.includes(d.Device):
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
			if o.resume && o.includes(device) {
				fmt.Fprintf(stdout, "%s: watched again\n", device)
				named = append(named, device)
			}
		}
	}
	if code == exitOK {
		fmt.Fprint(stdout, o.summarize(plugins, named))
	}
	return code
}

func (o *releaseFlags) includes(device string) bool { return o.device == "" || o.device == device }

// summarize returns what applies apart from the devices that were named, or "".
func (o *releaseFlags) summarize(plugins []release.Plugin, named []string) string {
	until := o.formatEnd(o.device)
	switch {
	case o.resume && len(named) == 0 && o.hadRelease:
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

// identifyDevice returns the attributes of a device on this host, without a request to its driver.
func identifyDevice(device string) verbs.Found {
	devices := sysfs.New("/sys")
	f, _ := devices.Function(device) // without the network devices, if they cannot be listed
	f.NodeGUID = devices.NodeGUID(device)
	return f
}

// releasedUntilFunc returns a function that returns until when a device of this host is released, or "" if it is not.
func releasedUntilFunc() func(f verbs.Found) string {
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
