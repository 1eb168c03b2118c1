// Package routes determines which network devices carry the default route of this process' network namespace, from /proc/net and sysfs.
// It needs no privilege, and asks no driver.
package routes

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Table reads the routing tables. The zero Table reads the tables of this system.
type Table struct {
	Proc  string // "" for /proc
	Sysfs string // "" for /sys
}

// maxDepth limits how many network devices may be stacked, as a VLAN on a bridge on a bond.
const maxDepth = 8

// CarriesDefault reports whether a default route uses a network device, either directly or through a bond, a bridge, a VLAN or another
// network device above it. It returns false if the tables cannot be read.
func (t Table) CarriesDefault(netdev string) bool {
	for _, over := range t.defaultRouteDevices() {
		if t.isBelow(netdev, over, maxDepth) {
			return true
		}
	}
	return false
}

// isBelow reports whether a network device is upper itself or below it.
func (t Table) isBelow(netdev, upper string, depth int) bool {
	if netdev == upper {
		return true
	}
	lower, err := filepath.Glob(filepath.Join(orDefault(t.Sysfs, "/sys"), "class/net", upper, "lower_*"))
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
		text, err := os.ReadFile(filepath.Join(orDefault(t.Proc, "/proc"), table.file))
		if err != nil {
			continue // usually because there is no IPv6
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

// isUsable reports whether the flags of a route, in hexadecimal, belong to a route that is up and does not reject packets. Without a
// default route of IPv6 the kernel has a rejecting one on lo.
func isUsable(flags string) bool {
	n, err := strconv.ParseUint(flags, 16, 32)
	return err == nil && n&unix.RTF_UP != 0 && n&unix.RTF_REJECT == 0
}

// orDefault returns dir, or otherwise if dir is "".
func orDefault(dir, otherwise string) string {
	if dir == "" {
		return otherwise
	}
	return dir
}
