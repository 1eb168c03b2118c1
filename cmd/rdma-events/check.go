package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"rdma_events/internal/agent"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
)

const checkAbout = `Checks a configuration and prints what it selects on this host: the devices that it
watches, the hosts that it pings, and odd entries such as a pattern that matches no
device. With -learn it prints the sections [[inputs.rdma_events.expected]] for the
current state of the host: run it on a host that is known to be good, and add them
to the configuration of all hosts of its kind.
Exit status 0: no problem; 1: an odd entry, a device that -learn leaves out, or none to
learn; 2: the configuration cannot be used.
`

// discoveryTimeout is the time limit for finding the devices of this host.
const discoveryTimeout = 5 * time.Second

// checkFlags are the flags of the subcommand check.
type checkFlags struct {
	config string
	learn  bool
}

func (o *checkFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("check", stderr)
	set.StringVar(&o.config, "config", "", "path of the configuration to check")
	set.BoolVar(&o.learn, "learn", false, "print the devices of this host as sections expected; -config selects the devices")
	return set
}

// checkConfig runs the subcommand check.
func checkConfig(args []string, stdout, stderr io.Writer) int {
	var o checkFlags
	set := o.define(stderr)
	if code, ok := parseFlags(set, args, "name the file with -config"); !ok {
		return code
	}
	if o.learn {
		return learnExpected(o.config, stdout, stderr)
	}
	if o.config == "" {
		return reportMisuse(set, "-config is missing: name the file to check")
	}
	c, err := loadConfig(o.config)
	if err == nil {
		err = c.Check()
	}
	ctx, cancel := context.WithTimeout(context.Background(), discoveryTimeout)
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
	if !c.Simulated() {
		odd = append(odd, c.PortMismatches(sysfs.New("/sys").Ports)...)
	}
	code := exitAfterWrite(io.WriteString(stdout, describeConfig(o.config, &c, here, odd)))
	if code == exitOK && len(odd) > 0 {
		return exitWarning
	}
	return code
}

// describeConfig returns what a configuration selects on a host with these devices. The configuration must have been
// checked.
func describeConfig(path string, c *agent.Config, here []verbs.Found, odd []string) string {
	var names, watched, closed []string
	released := func(verbs.Found) string { return "" }
	if !c.Simulated() {
		released = releasedUntilFunc()
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
	fmt.Fprintf(&b, "%s: backend %s, probe %s\n", path, c.Backend, describeProbes(c))
	fmt.Fprintf(&b, "devices here: %s\nwatched: %s\n", joinNames(names), joinNames(watched))
	if skipped := c.ExplainSkipped(here); skipped != "" {
		fmt.Fprintf(&b, "skipped: %s\n", skipped)
	}
	if len(closed) > 0 {
		fmt.Fprintf(&b, "not open: %s\n", joinNames(closed))
	}
	for _, text := range c.DescribeExpected() {
		fmt.Fprintf(&b, "expected: %s\n", text)
	}
	b.WriteString(describeFabric(c, here))
	for _, one := range odd {
		fmt.Fprintf(&b, "warning: %s\n", one)
	}
	b.WriteString("ok\n")
	return b.String()
}

// describeFabric returns which hosts this host pings, or "" if probes between hosts are off.
func describeFabric(c *agent.Config, here []verbs.Found) string {
	f := &c.Fabric
	if !f.Enabled() {
		return ""
	}
	l, err := f.ReadPinglist()
	if err != nil {
		return "" // the list has just been changed; the plugin reports the error when it starts
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
		"pings: %s\nlist: %s, %s in %s\n", own, len(l.Pings), time.Duration(f.Interval), joinNames(devices), len(l.PingedBy), listens,
		joinNames(names), l.Digest, formatCount(l.Hosts, "host"), formatCount(l.Groups, "group"))
}

func describeProbes(c *agent.Config) string {
	if c.Probe.Interval == 0 {
		return "off"
	}
	return fmt.Sprintf("%s every %s", c.Probe.Method, time.Duration(c.Probe.Interval))
}

func joinNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
