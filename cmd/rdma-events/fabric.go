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

const fabricAbout = `Probes the other hosts of fabric.peers_file and shows each pair of a local port and
a remote host, the worst first: the verdict and how long it has lasted, probes lost
on the forward and the reverse path, the latency of echoes and writes, and what the
verdict means. The command uses its own workers and sessions, so it does not disturb
the running plugin. On a terminal it redraws the table every second.
-list only shows which hosts this host pings and is pinged by. It needs no device.
-demo shows a simulated network on which there is always a fault.
Exit status 0: all pairs are ok in the end; 1: some are not;
2: a local port is not, or the command failed; 70: no pair was seen.
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
	set.Func("device", "show only devices that match this glob; may be repeated", func(glob string) error {
		o.devices = append(o.devices, glob)
		return nil
	})
	set.DurationVar(&o.limit, "for", 0, "duration of the probes; 0: until interrupted")
	set.DurationVar(&o.every, "every", time.Second, "time between two tables or, with -json, sets of objects, if the output is no terminal")
	set.BoolVar(&o.json, "json", false, "write one JSON object per line for each pair")
	set.BoolVar(&o.list, "list", false, "show which hosts this host pings and is pinged by, without probing")
	set.StringVar(&o.peersFile, "peers-file", "", "with -list: the list of hosts to use instead of the configured one")
	set.StringVar(&o.host, "host", "", "with -list: the name of this host in the list; by default fabric.host or the host's name")
	set.BoolVar(&o.demo, "demo", false, "show a simulated network between hosts")
	return set
}

// showFabric runs the subcommand fabric.
func showFabric(args []string, stdout *os.File, stderr io.Writer) int {
	var o fabricFlags
	set := o.define(stderr)
	if code, ok := parseFlags(set, args, "name a device with -device"); !ok {
		return code
	}
	if wrong := o.findMisuse(); wrong != "" {
		return reportMisuse(set, wrong)
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

// findMisuse returns what is wrong with the flags, or "".
func (o *fabricFlags) findMisuse() string {
	for _, glob := range o.devices {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Sprintf("-device %q is not a glob", glob)
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

// requireHosts returns a one-line error if a configuration has no list of hosts.
func requireHosts(c *agent.Config, path string) error {
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
		if err := simulateHosts(&c); err != nil {
			return c, err
		}
	}
	if o.peersFile != "" {
		c.Fabric.PeersFile = o.peersFile
	}
	if o.host != "" {
		c.Fabric.Host = o.host
	}
	if err := requireHosts(&c, o.config); err != nil || o.list {
		return c, err
	}
	c.Fabric.ProbeOnly()
	c.Probe.Interval, c.Evidence.SnapshotInterval, c.Evidence.CommandInterval, c.Evidence.GIDInterval = 0, 0, 0, 0
	c.Applications.Events, c.Applications.Objects = false, false
	return c, c.Check()
}

// run probes other hosts and shows the results.
func (o *fabricFlags) run(stdout *os.File, c *agent.Config) (code int, err error) {
	if err := requirePings(&c.Fabric); err != nil {
		return exitFailed, err
	}
	out, err := execd.NewOutput(int(stdout.Fd()))
	if err != nil {
		return exitFailed, fmt.Errorf("open standard output: %w", err)
	}
	defer func() { _ = out.Close() }() // it closes only an eventfd
	ctx, stop := limitContext(context.Background(), o.limit)
	defer stop()
	t := pairTable{globs: o.devices, ended: ctx.Err}
	screen := live.New(live.Config{
		Out: out, JSON: o.json, Colours: isTerminal(stdout), ASCII: !isUTF8(), Every: o.every, Pairs: t.currentPairs, Now: time.Now,
		Width: func() int { return terminalColumns(stdout) }, Height: func() int { return terminalRows(stdout) },
	})
	if o.demo {
		screen.Log().Info(demoNotice(true))
	}
	if t.devices, err = agent.Open(c, onlyClosedDevices(screen.Emit), screen.Log()); err != nil {
		return exitFailed, err
	}
	if err := errors.Join(runScreen(ctx, screen, t.devices, out), t.devices.Close()); err != nil {
		return exitFailed, err
	}
	return pairsExitStatus(t.last), nil
}

// pairTable provides the pairs to show. Only the goroutine of the screen uses it.
type pairTable struct {
	globs   []string     // globs of the shown devices; empty: all
	ended   func() error // returns an error when the command is ending
	devices *agent.Watcher
	last    []timeline.Record
}

// currentPairs returns the current state of the pairs. When the command is ending, which ends all pairs, it returns the
// last state before.
func (t *pairTable) currentPairs() []timeline.Record {
	var now []timeline.Record
	for _, v := range t.devices.PairViews() {
		if t.includesDevice(v.Device) {
			now = append(now, timeline.NewPair(&v.FabricPeer, v.EchoP, v.WriteP, v.OwnVerdict))
		}
	}
	if t.ended() == nil {
		t.last = now
	}
	return slices.Clone(t.last)
}

// includesDevice reports whether pairs of a device are shown.
func (t *pairTable) includesDevice(device string) bool {
	return len(t.globs) == 0 || slices.ContainsFunc(t.globs, func(glob string) bool {
		ok, _ := path.Match(glob, device) // the pattern is valid
		return ok
	})
}

// requirePings returns a one-line error if this host pings no host of the list.
func requirePings(c *agent.FabricConfig) error {
	l, err := c.ReadPinglist()
	switch {
	case err != nil:
		return err
	case l.Own.Group == "":
		return fmt.Errorf("fabric.peers_file = %q has no host %q: add it, or set fabric.host to the name that it has there", c.PeersFile, l.Own.Name)
	case len(l.Pings) == 0:
		return fmt.Errorf("fabric.peers_file = %q lists no host but this one: it must list all hosts", c.PeersFile)
	}
	return nil
}

// onlyClosedDevices returns an emit function that passes on only devices that cannot be opened. They are shown nowhere
// else.
func onlyClosedDevices(emit func(measure.Point)) func(measure.Point) {
	return func(p measure.Point) {
		if d, ok := p.(*measure.Device); ok && !d.Open {
			emit(p)
		}
	}
}

// pairsExitStatus returns the exit status for the last state of the pairs.
func pairsExitStatus(pairs []timeline.Record) int {
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
