package nldev

import (
	"encoding/binary"

	"rdma_events/internal/sys/netlink"
)

// eachEntry calls f for the fields of each entry in a table of a message.
func eachEntry(body []byte, table, entry uint16, f func(fields []byte) error) error {
	return netlink.Each(body, func(kind uint16, all []byte) error {
		if kind != table {
			return nil
		}
		return netlink.Each(all, func(kind uint16, one []byte) error {
			if kind != entry {
				return nil
			}
			return f(one)
		})
	})
}

// parseNumber returns a number of 64 or 32 bits.
func parseNumber(value []byte) uint64 {
	if len(value) < 8 {
		return uint64(netlink.ParseWord(value))
	}
	return binary.NativeEndian.Uint64(value)
}

// addNumbers adds the numbers in a table of a message, whose entries have a name and a value.
func addNumbers(to map[string]uint64, body []byte, table, entry, nameOf, valueOf uint16) error {
	return eachEntry(body, table, entry, func(fields []byte) error {
		var name string
		var n uint64
		err := netlink.Each(fields, func(kind uint16, value []byte) error {
			switch kind {
			case nameOf:
				name = netlink.ParseText(value)
			case valueOf:
				n = parseNumber(value)
			}
			return nil
		})
		if err == nil && name != "" {
			to[name] = n
		}
		return err
	})
}
