package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"rdma_events/internal/agent"
	"rdma_events/internal/device/verbs"
)

const checkAbout = `Reads a configuration and prints what it means on this host: the devices that it
watches now, the hosts that it pings, and what is odd, as a pattern that matches
no device. With -learn it prints instead the sections [[inputs.rdma_events.expected]]
for the host as it is now: run it on a host that is known to be good, and add them to
the configuration of all hosts of its kind.
Exit status 0: all is well; 1: something is odd, or left out of what -learn prints; 2:
it cannot be used.
`

// lookTime is how long the devices of this host are looked for.
const lookTime = 5 * time.Second

// checkFlags are the flags of the subcommand check.
type checkFlags struct {
	config string
	learn  bool
}

func (o *checkFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("check", stderr)
	set.StringVar(&o.config, "config", "", "path to the config file to check")
	set.BoolVar(&o.learn, "learn", false, "print what this host has as sections of what it must have; -config chooses which devices are watched")
	return set
}

// check runs the subcommand check.
func check(args []string, stdout, stderr io.Writer) int {
	var o checkFlags
	set := o.define(stderr)
	if code, ok := parse(set, args, "name the file with -config"); !ok {
		return code
	}
	if o.learn {
		return learn(o.config, stdout, stderr)
	}
	if o.config == "" {
		return misused(set, "-config is missing: name the file to check")
	}
	c, err := loadConfig(o.config)
	if err == nil {
		err = c.Check()
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	var here []verbs.Found
	if err == nil {
		here, err = c.FindDevices(ctx)
	}
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	}
	odd := c.Mismatches(here)
	code := done(io.WriteString(stdout, meaning(o.config, &c, here, odd)))
	if code == exitOK && len(odd) > 0 {
		return exitWarning
	}
	return code
}

// meaning says what a configuration means on a host with these devices. The configuration has been checked.
func meaning(path string, c *agent.Config, here []verbs.Found, odd []string) string {
	var names, watched, closed []string
	released := func(verbs.Found) string { return "" }
	if !c.Simulated() {
		released = releasedDevices()
	}
	for _, d := range here {
		name := d.Name
		switch {
		case d.Scalable:
			name += " (a scalable function)"
		case d.VirtualFunction:
			name += " (a virtual function)"
		}
		names = append(names, name)
		if c.Watches(d, here) {
			watched = append(watched, d.Name)
			until := released(d)
			switch {
			case until != "":
				closed = append(closed, d.Name+" "+until)
			case d.Netns == verbs.NetnsOther:
				closed = append(closed, d.Name+" is in another network namespace")
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: backend %s, probe %s\n", path, c.Backend, probing(c))
	fmt.Fprintf(&b, "devices here: %s\nwatched: %s\n", listed(names), listed(watched))
	if skipped := c.ExplainSkipped(here); skipped != "" {
		fmt.Fprintf(&b, "skipped: %s\n", skipped)
	}
	if len(closed) > 0 {
		fmt.Fprintf(&b, "not open: %s\n", listed(closed))
	}
	for _, text := range c.DescribeExpected() {
		fmt.Fprintf(&b, "expected: %s\n", text)
	}
	b.WriteString(meaningOfHosts(c, here))
	for _, one := range odd {
		fmt.Fprintf(&b, "odd: %s\n", one)
	}
	b.WriteString("ok\n")
	return b.String()
}

// meaningOfHosts says whom this host pings, "" where hosts are not probed.
func meaningOfHosts(c *agent.Config, here []verbs.Found) string {
	f := &c.Fabric
	if !f.Enabled() {
		return ""
	}
	l, err := f.ReadPinglist()
	if err != nil {
		return "" // the list was read a moment ago: the plugin says so when it starts
	}
	var names, devices []string
	for _, p := range l.Pings {
		names = append(names, p.Name)
	}
	for _, d := range here {
		if c.Watches(d, here) && f.IncludesDevice(d.Name) {
			devices = append(devices, d.Name)
		}
	}
	listens := "nowhere"
	if f.Listen != "" {
		listens = "on " + f.Listen
	}
	own := l.Own.Name
	if l.Own.Group != "" {
		own += " of " + l.Own.Group
	}
	return fmt.Sprintf("fabric: %s pings %d hosts every %s from %s, and is pinged by %d; it listens %s\n"+
		"pings: %s\nlist: %s, %s in %s\n", own, len(l.Pings), time.Duration(f.Interval), listed(devices), len(l.PingedBy), listens,
		listed(names), l.Digest, several(l.Hosts, "host"), several(l.Groups, "group"))
}

func probing(c *agent.Config) string {
	if c.Probe.Interval == 0 {
		return "off"
	}
	return fmt.Sprintf("%s every %s", c.Probe.Method, time.Duration(c.Probe.Interval))
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
