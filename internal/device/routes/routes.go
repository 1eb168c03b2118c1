// Package routes finds out which network devices carry the default route of this process' network namespace, by /proc/net and sysfs. It
// needs no privilege, and asks no driver.
package routes

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Table reads the routing tables. The zero Table is that of this system.
type Table struct {
	Proc  string // "" for /proc
	Sysfs string // "" for /sys
}

// maxDepth is how many network devices may lie one above the other, as a VLAN on a bridge on a bond.
const maxDepth = 8

// CarriesDefault reports whether a default route goes over a network device: over itself, or over a bond, a bridge, a VLAN or another
// network device that it is below. It is false if the tables cannot be read.
func (t Table) CarriesDefault(netdev string) bool {
	for _, over := range t.defaultRouteDevices() {
		if t.isBelow(netdev, over, maxDepth) {
			return true
		}
	}
	return false
}

// isBelow reports whether a network device is the upper one or below it.
func (t Table) isBelow(netdev, upper string, depth int) bool {
	if netdev == upper {
		return true
	}
	lower, err := filepath.Glob(filepath.Join(or(t.Sysfs, "/sys"), "class/net", upper, "lower_*"))
	if err != nil || depth == 0 {
		return false
	}
	for _, link := range lower {
		if t.isBelow(netdev, strings.TrimPrefix(filepath.Base(link), "lower_"), depth-1) {
			return true
		}
	}
	return false
}

// defaultRouteDevices returns the network devices of the default routes of IPv4 and IPv6.
func (t Table) defaultRouteDevices() []string {
	var all []string
	for _, table := range []struct {
		file string
		of   func(fields []string) string
	}{{"net/route", defaultOfIPv4}, {"net/ipv6_route", defaultOfIPv6}} {
		text, err := os.ReadFile(filepath.Join(or(t.Proc, "/proc"), table.file))
		if err != nil {
			continue // no IPv6, mostly
		}
		for line := range strings.Lines(string(text)) {
			if netdev := table.of(strings.Fields(line)); netdev != "" {
				all = append(all, netdev)
			}
		}
	}
	return all
}

// defaultOfIPv4 returns the network device in a line of /proc/net/route, "" if it is no default route: Iface, Destination, Gateway, Flags,
// RefCnt, Use, Metric, Mask and others (fib_route_seq_show in net/ipv4/fib_trie.c).
func defaultOfIPv4(fields []string) string {
	if len(fields) < 8 || fields[1] != "00000000" || fields[7] != "00000000" || !isUsable(fields[3]) {
		return ""
	}
	return fields[0]
}

// defaultOfIPv6 returns the network device in a line of /proc/net/ipv6_route, "" if it is no default route: destination, its prefix
// length, source, its prefix length, next hop, metric, two counts, flags and network device (rt6_info_route in net/ipv6/route.c).
func defaultOfIPv6(fields []string) string {
	if len(fields) < 10 || strings.Trim(fields[0], "0") != "" || fields[1] != "00" || !isUsable(fields[8]) {
		return ""
	}
	return fields[9]
}

// isUsable reports whether the flags of a route, in hexadecimal, are those of a route that is up and rejects nothing. Without a default
// route of IPv6 the kernel has one on lo that rejects.
func isUsable(flags string) bool {
	n, err := strconv.ParseUint(flags, 16, 32)
	return err == nil && n&unix.RTF_UP != 0 && n&unix.RTF_REJECT == 0
}

func or(dir, otherwise string) string {
	if dir == "" {
		return otherwise
	}
	return dir
}
