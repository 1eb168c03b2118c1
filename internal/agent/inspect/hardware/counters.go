package hardware

import (
	"context"
	"path"
	"strconv"
	"strings"
)

// counterReading is one reading of a counter.
type counterReading struct {
	name  string // path relative to the device's directory
	count uint64
	err   string
}

// readCounters reads the driver's counters and the standard counters of the ports, without the counters of traffic.
func (x *run) readCounters(ctx context.Context) []counterReading {
	x.Say("%s: reading its counters", x.options.Device)
	groups := []string{"hw_counters"}
	for i := range x.ports {
		port := path.Join("ports", strconv.Itoa(i+1))
		groups = append(groups, path.Join(port, "hw_counters"), path.Join(port, "counters"))
	}
	var all []counterReading
	for _, group := range groups {
		for _, name := range x.files.List(x.deviceFile(group)) {
			if name == "lifespan" || isTraffic(name) || ctx.Err() != nil {
				continue
			}
			v := counterReading{name: path.Join(group, name)}
			text, _, err := x.files.readFile(ctx, x.deviceFile(group, name))
			if err != nil {
				v.err = errnoName(err)
			} else if v.count, err = strconv.ParseUint(text, 10, 64); err != nil {
				v.err = "not a number"
			}
			all = append(all, v)
		}
	}
	return all
}

// isTraffic reports whether a counter counts data or packets.
func isTraffic(name string) bool {
	return strings.HasSuffix(name, "_data") || strings.HasSuffix(name, "_packets")
}

// compareCounters combines two readings of all counters.
func compareCounters(before, after []counterReading) []Counter {
	last := map[string]counterReading{}
	for _, v := range after {
		last[v.name] = v
	}
	all := []Counter{}
	for _, b := range before {
		a, there := last[b.name]
		c := Counter{Name: b.name, Before: b.count, After: a.count, Error: b.err}
		if c.Error == "" && !there {
			c.Error = "not read again"
		} else if c.Error == "" {
			c.Error = a.err
		}
		all = append(all, c)
	}
	return all
}
