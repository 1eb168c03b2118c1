package sysfs

import (
	"strconv"
	"strings"
)

// parseTransport converts node_type ("1: CA") to the transport, as libibverbs
// does (decode_knode_type in its init.c). It returns "" for an unknown type.
func parseTransport(nodeType string) string {
	number, _, _ := strings.Cut(nodeType, ":")
	switch number {
	case "1", "2", "3": // CA, switch, router
		return "infiniband"
	case "4": // RNIC
		return "iwarp"
	case "5":
		return "usnic"
	case "6":
		return "usnic_udp"
	case "7":
		return "unspecified"
	}
	return ""
}

// parseRate splits a port's rate, as in "2.5 Gb/sec (1X SDR)", into Gb/s over
// all lanes and the width as verbs print it, "1x".
func parseRate(text string) (gbps float64, width string, ok bool) {
	rate, rest, ok := strings.Cut(text, " Gb/sec (")
	if !ok {
		return 0, "", false
	}
	gbps, err := strconv.ParseFloat(rate, 64)
	if err != nil || !(gbps > 0) {
		return 0, "", false
	}
	lanes, _, ok := strings.Cut(rest, "X")
	if n, err := strconv.Atoi(lanes); !ok || err != nil || n <= 0 {
		return 0, "", false
	}
	return gbps, lanes + "x", true
}

// parseNUMANode returns the number of a NUMA node, -1 if the text is no number. The
// kernel also shows -1 if it knows no node.
func parseNUMANode(text string) int {
	node, err := strconv.Atoi(text)
	if err != nil || node < 0 {
		return -1
	}
	return node
}

// pciAddress returns name if it is the address of a PCI function,
// domain:bus:device.function ("0000:3b:00.1"), else "". Domains may have more
// than four digits (VMD).
func pciAddress(name string) string {
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == ':' || r == '.' })
	if len(parts) != 4 || len(parts[0]) < 4 {
		return ""
	}
	for _, part := range parts {
		if _, err := strconv.ParseUint(part, 16, 32); err != nil {
			return ""
		}
	}
	if name != parts[0]+":"+parts[1]+":"+parts[2]+"."+parts[3] {
		return ""
	}
	return name
}
