package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"

	"rdma_events/internal/agent"
	"rdma_events/internal/agent/live"
	"rdma_events/internal/record/timeline"
	"rdma_events/internal/sys/execd"
	"rdma_events/internal/telemetry/measure"
)

const fabricAbout = `Probes the other hosts of fabric.peers_file and shows each pair of an own port
with one of them, the worst first: the verdict and for how long, probes lost on
the way there and back, how long echoes and writes take, and what the verdict
means. Workers and sessions are its own, so that it does not disturb the running
plugin. On a terminal the table is drawn anew every second.

With -list it only says who this host pings and is pinged by, without a device.
With -demo it shows a simulated network, on which something is always wrong.

Exit status 0: all pairs were well at last; 1: some were not; 2: an own port was
not, or the command could not do its work; 70: no pair was seen.
`

// fabricFlags are the flags of the subcommand fabric.
type fabricFlags struct {
	config, peersFile, host string
	devices                 []string
	limit, every            time.Duration
	json, list, demo        bool
}

func (o *fabricFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("fabric", stderr)
	set.StringVar(&o.config, "config", "", "the plugin's configuration, with fabric.peers_file")
	set.Func("device", "show only this device; a glob, and may be given more than once", func(glob string) error {
		o.devices = append(o.devices, glob)
		return nil
	})
	set.DurationVar(&o.limit, "for", 0, "how long to probe; 0: until interrupted")
	set.DurationVar(&o.every, "every", time.Second, "how often to write the table, or its objects, where there is no terminal")
	set.BoolVar(&o.json, "json", false, "write one JSON object a line: each pair")
	set.BoolVar(&o.list, "list", false, "say who this host pings and is pinged by, and probe none")
	set.StringVar(&o.peersFile, "peers-file", "", "with -list: the list of hosts, instead of that of a configuration")
	set.StringVar(&o.host, "host", "", "with -list: the name of the host in the list; by default that of fabric.host, else this host's")
	set.BoolVar(&o.demo, "demo", false, "show a simulated network between hosts")
	return set
}

// showFabric runs the subcommand fabric.
func showFabric(args []string, stdout *os.File, stderr io.Writer) int {
	var o fabricFlags
	set := o.define(stderr)
	if code, ok := parse(set, args, "name a device with -device"); !ok {
		return code
	}
	if wrong := o.wrong(); wrong != "" {
		return misused(set, wrong)
	}
	c, err := o.settings()
	code := exitFailed
	switch {
	case err != nil:
	case o.list:
		code, err = o.writeList(stdout, &c.Fabric)
	default:
		code, err = o.run(stdout, &c)
	}
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
	}
	return code
}

// wrong says what is wrong with the flags, "" if nothing is.
func (o *fabricFlags) wrong() string {
	for _, glob := range o.devices {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Sprintf("-device %q is no glob", glob)
		}
	}
	switch {
	case o.demo && (o.config != "" || o.peersFile != ""):
		return "-demo goes neither with -config nor with -peers-file: the demonstration has its own hosts"
	case !o.list && (o.peersFile != "" || o.host != ""):
		return "-peers-file and -host go with -list"
	case o.limit < 0:
		return fmt.Sprintf("-for %s is not allowed: want 0 or more", o.limit)
	case o.every < time.Second:
		return fmt.Sprintf("-every %s is not allowed: want 1s or more", o.every)
	}
	return ""
}

// errNoHosts is wrapped by the error of a configuration without a list of hosts.
var errNoHosts = errors.New("fabric.peers_file is not set, so that no other host is probed")

// needHosts returns an error of one line if a configuration has no list of hosts.
func needHosts(c *agent.Config, path string) error {
	switch {
	case c.Fabric.Enabled():
		return nil
	case path == "":
		return fmt.Errorf("%w: name a configuration that has it with -config, or try -demo", errNoHosts)
	}
	return fmt.Errorf("%s: %w: set it to the list of all hosts", path, errNoHosts)
}

// settings returns the configuration, changed by the flags.
func (o *fabricFlags) settings() (agent.Config, error) {
	c, err := loadConfig(o.config)
	if err != nil {
		return c, err
	}
	if o.demo {
		if err := simulatedHosts(&c); err != nil {
			return c, err
		}
	}
	if o.peersFile != "" {
		c.Fabric.PeersFile = o.peersFile
	}
	if o.host != "" {
		c.Fabric.Host = o.host
	}
	if err := needHosts(&c, o.config); err != nil || o.list {
		return c, err
	}
	c.Fabric.ProbeOnly()
	c.Probe.Interval, c.Evidence.SnapshotInterval, c.Evidence.CommandInterval, c.Evidence.GIDInterval = 0, 0, 0, 0
	c.Applications.Events, c.Applications.Objects = false, false
	return c, c.Check()
}

// run probes, and shows what comes of it.
func (o *fabricFlags) run(stdout *os.File, c *agent.Config) (code int, err error) {
	if err := probesSome(&c.Fabric); err != nil {
		return exitFailed, err
	}
	out, err := execd.NewOutput(int(stdout.Fd()))
	if err != nil {
		return exitFailed, fmt.Errorf("open standard output: %w", err)
	}
	defer func() { _ = out.Close() }() // an eventfd of our own
	ctx, stop := until(context.Background(), o.limit)
	defer stop()
	t := pairTable{globs: o.devices, over: ctx.Err}
	screen := live.New(live.Config{
		Out: out, JSON: o.json, Colours: isTerminal(stdout), ASCII: !isUTF8(), Every: o.every, Pairs: t.pairs, Now: time.Now,
		Width: func() int { return columns(stdout) }, Height: func() int { return rows(stdout) },
	})
	if o.demo {
		screen.Log().Info(demonstration(true))
	}
	if t.devices, err = agent.Open(c, unwatched(screen.Emit), screen.Log()); err != nil {
		return exitFailed, err
	}
	if err := errors.Join(show(ctx, screen, t.devices, out), t.devices.Close()); err != nil {
		return exitFailed, err
	}
	return judged(t.last), nil
}

// pairTable is what there is to be shown. The goroutine of the screen uses it.
type pairTable struct {
	globs   []string     // of devices; none: all are shown
	over    func() error // not nil: the command ends
	devices *agent.Watcher
	last    []timeline.Record
}

// pairs returns the pairs as they are now, and at the end of the command, which is that of all pairs, as they were before.
func (t *pairTable) pairs() []timeline.Record {
	var now []timeline.Record
	for _, v := range t.devices.PairViews() {
		if t.shows(v.Device) {
			now = append(now, timeline.NewPair(&v.FabricPeer, v.EchoP, v.WriteP, v.OwnVerdict))
		}
	}
	if t.over() == nil {
		t.last = now
	}
	return slices.Clone(t.last)
}

// shows reports whether a device is asked for.
func (t *pairTable) shows(device string) bool {
	return len(t.globs) == 0 || slices.ContainsFunc(t.globs, func(glob string) bool {
		ok, _ := path.Match(glob, device) // it was tried
		return ok
	})
}

// probesSome returns an error of one line if the list has no host that this one probes.
func probesSome(c *agent.FabricConfig) error {
	l, err := c.ReadPinglist()
	switch {
	case err != nil:
		return err
	case l.Own.Group == "":
		return fmt.Errorf("fabric.peers_file = %q has no host %q: add it, or set fabric.host to the name that it has there", c.PeersFile, l.Own.Name)
	case len(l.Pings) == 0:
		return fmt.Errorf("fabric.peers_file = %q has no other host than this one: it has to be the list of all hosts", c.PeersFile)
	}
	return nil
}

// unwatched passes on only devices that cannot be watched: there is no other place for them.
func unwatched(emit func(measure.Point)) func(measure.Point) {
	return func(p measure.Point) {
		if d, ok := p.(*measure.Device); ok && !d.Open {
			emit(p)
		}
	}
}

// judged returns the exit status for the pairs that were seen last.
func judged(pairs []timeline.Record) int {
	if len(pairs) == 0 {
		return exitUnknown
	}
	code := exitOK
	for i := range pairs {
		switch {
		case timeline.OwnText(pairs[i].Pair.OwnVerdict) != "":
			return exitFailed
		case !pairs[i].Peer.IsWell():
			code = exitWarning
		}
	}
	return code
}
