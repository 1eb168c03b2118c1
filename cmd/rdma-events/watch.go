package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"rdma_events/internal/agent"
	"rdma_events/internal/agent/live"
	"rdma_events/internal/sys/execd"
	"rdma_events/internal/telemetry/measure"
)

const watchAbout = `Shows the events of this host's RDMA devices until it is interrupted: asynchronous
events, with the change of state that they cause and the duration of the previous
state, and devices that appear and disappear. -probe also shows how long a
completion event takes to wake a thread. -apps also shows events of applications:
errors of their queues, whether they read these errors, and calls that hang.
-fabric also probes the other hosts of fabric.peers_file, and shows each pair whose
verdict changes. -demo shows simulated devices and needs no RDMA device; with
-fabric it shows a simulated network between hosts.
`

// watchFlags are the flags of the subcommand watch.
type watchFlags struct {
	config  string
	devices []string
	limit   time.Duration
	json    bool
	probe   bool
	apps    bool
	fabric  bool
	demo    bool
}

// watchLive runs the subcommand watch.
func watchLive(args []string, stdout *os.File, stderr io.Writer) int {
	o, code := parseWatchFlags(args, stderr)
	if o == nil {
		return code
	}
	if err := o.run(stdout); err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	}
	return exitOK
}

func parseWatchFlags(args []string, stderr io.Writer) (*watchFlags, int) {
	var o watchFlags
	set := o.define(stderr)
	if code, ok := parseFlags(set, args, "name a device with -device"); !ok {
		return nil, code
	}
	switch {
	case o.demo && o.config != "":
		return nil, reportMisuse(set, "-demo and -config do not go together: the demonstration has its own devices")
	case o.limit < 0:
		return nil, reportMisuse(set, fmt.Sprintf("-for %s is not allowed: want 0 or more", o.limit))
	}
	return &o, exitOK
}

func (o *watchFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("watch", stderr)
	set.StringVar(&o.config, "config", "", "the plugin's configuration, which selects devices, ports and probes")
	set.Func("device", "show only devices that match this glob; may be repeated", func(glob string) error {
		o.devices = append(o.devices, glob)
		return nil
	})
	set.DurationVar(&o.limit, "for", 0, "duration of the watch; 0: until interrupted")
	set.BoolVar(&o.json, "json", false, "write one JSON object per line")
	set.BoolVar(&o.probe, "probe", false, "run probes and show the wake-up latency of each port")
	set.BoolVar(&o.apps, "apps", false, "show events and errors of applications; needs rdma-events-tracer")
	set.BoolVar(&o.fabric, "fabric", false, "probe other hosts and show verdicts that change; needs fabric.peers_file")
	set.BoolVar(&o.demo, "demo", false, "show simulated devices with events of every kind within a minute")
	return set
}

// settings returns the configuration, changed by the flags.
func (o *watchFlags) settings() (agent.Config, error) {
	c, err := loadConfig(o.config)
	if err != nil {
		return c, err
	}
	if o.demo {
		simulateDevices(&c)
	}
	if err := o.configureFabric(&c); err != nil {
		return c, err
	}
	if len(o.devices) > 0 {
		c.SelectDevices(o.devices)
	}
	switch {
	case !o.probe:
		c.Probe.Interval = 0
	case c.Probe.Interval == 0:
		c.Probe.Interval = agent.DefaultConfig().Probe.Interval
	}
	c.Probe.Histogram = true
	c.Applications.Events = o.apps // a second tracer beside the plugin's is started only on request
	return c, c.Check()
}

// configureFabric turns probes of other hosts on or off.
func (o *watchFlags) configureFabric(c *agent.Config) error {
	if !o.fabric {
		c.Fabric.Disable() // else hosts would be probed for nothing
		return nil
	}
	if o.demo {
		if err := simulateHosts(c); err != nil {
			return err
		}
	}
	c.Fabric.ProbeOnly() // the plugin may occupy the port
	return requireHosts(c, o.config)
}

func (o *watchFlags) run(stdout *os.File) error {
	c, err := o.settings()
	if err != nil {
		return err
	}
	out, err := execd.NewOutput(int(stdout.Fd()))
	if err != nil {
		return fmt.Errorf("open standard output: %w", err)
	}
	defer func() { _ = out.Close() }() // it closes only an eventfd
	screen := live.New(live.Config{
		Out: out, JSON: o.json, Colours: isTerminal(stdout), ASCII: !isUTF8(), Probes: o.probe, Apps: o.apps,
		Width: func() int { return terminalColumns(stdout) }, Now: time.Now,
	})
	if o.demo {
		screen.Log().Info(demoNotice(o.fabric))
	}
	devices, err := agent.Open(&c, screen.Emit, screen.Log())
	if err != nil {
		return err
	}
	ctx, stop := limitContext(context.Background(), o.limit)
	defer stop()
	return errors.Join(runScreen(ctx, screen, devices, out), devices.Close())
}

// limitContext returns a context that ends after limit (0: no limit) or at SIGINT, SIGTERM or SIGHUP.
func limitContext(ctx context.Context, limit time.Duration) (context.Context, func()) {
	// A write to a pipe without a reader must return an error. SIGPIPE would end
	// the process and leave the runtime directory behind.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if limit == 0 {
		return ctx, cancel
	}
	ctx, release := context.WithTimeout(ctx, limit)
	return ctx, func() {
		release()
		cancel()
	}
}

// drainTime is the time that the reader of standard output has at the end to read the last output.
const drainTime = time.Second

// runScreen watches until ctx is done or a write to standard output fails. It is no error if the reader has closed its
// end. If the reader has stopped reading, the last output is lost.
func runScreen(ctx context.Context, screen *live.Screen, devices *agent.Watcher, out *execd.Output) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shown, finish := context.WithCancel(context.Background())
	defer finish()
	var writing sync.WaitGroup
	var written error
	writing.Go(func() {
		written = screen.Run(shown, func(now time.Time) []measure.Point {
			return devices.Gather(now).Points
		})
		cancel()
	})
	watched := devices.Run(ctx)
	finish() // makes the screen show the last points
	late := time.AfterFunc(drainTime, out.Interrupt)
	writing.Wait()
	late.Stop()
	if errors.Is(written, syscall.EPIPE) || errors.Is(written, execd.ErrInterrupted) {
		written = nil
	}
	return errors.Join(watched, written)
}

// isUTF8 reports whether the locale uses UTF-8, which has block characters
// (locale(7)).
func isUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := os.Getenv(name); value != "" {
			return strings.Contains(strings.ToUpper(strings.ReplaceAll(value, "-", "")), "UTF8")
		}
	}
	return false
}
