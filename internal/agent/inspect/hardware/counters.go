package hardware

import (
	"context"
	"path"
	"strconv"
	"strings"
)

// value is one reading of a counter.
type value struct {
	name  string // the path below the device's directory
	count uint64
	err   string
}

// counters reads the driver's counters and the ports' standard counters, without
// the standard counters of traffic.
func (x *trial) counters(ctx context.Context) []value {
	x.Say("%s: reading its counters", x.o.Device)
	groups := []string{"hw_counters"}
	for i := range x.ports {
		port := path.Join("ports", strconv.Itoa(i+1))
		groups = append(groups, path.Join(port, "hw_counters"), path.Join(port, "counters"))
	}
	var all []value
	for _, group := range groups {
		for _, name := range x.sys.List(x.dir(group)) {
			if name == "lifespan" || isTraffic(name) || ctx.Err() != nil {
				continue
			}
			v := value{name: path.Join(group, name)}
			text, _, err := x.sys.read(ctx, x.dir(group, name))
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

// compare joins two readings of all counters.
func compare(before, after []value) []Counter {
	last := map[string]value{}
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
