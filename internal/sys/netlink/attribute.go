package netlink

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Attribute appends an attribute (struct nlattr) to a message, padded to four bytes. For a nested
// attribute, kind has to include unix.NLA_F_NESTED.
func Attribute(to []byte, kind uint16, value []byte) []byte {
	to = binary.NativeEndian.AppendUint16(to, uint16(unix.SizeofNlAttr+len(value)))
	to = append(binary.NativeEndian.AppendUint16(to, kind), value...)
	return append(to, make([]byte, alignedSize(len(value))-len(value))...)
}

// Each calls f for each attribute in a body or in a nested attribute. It removes the flags from
// kind. It stops and returns an error if f returns one, or if an attribute is incomplete.
func Each(raw []byte, f func(kind uint16, value []byte) error) error {
	for len(raw) > 0 {
		size := 0
		if len(raw) >= unix.SizeofNlAttr {
			size = int(binary.NativeEndian.Uint16(raw))
		}
		if size < unix.SizeofNlAttr || size > len(raw) {
			return fmt.Errorf("read answer: an attribute of %d bytes in %d", size, len(raw))
		}
		kind := binary.NativeEndian.Uint16(raw[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if err := f(kind, raw[unix.SizeofNlAttr:size]); err != nil {
			return err
		}
		raw = raw[min(alignedSize(size), len(raw)):]
	}
	return nil
}

// alignedSize returns n rounded up to a multiple of four (NLA_ALIGN).
func alignedSize(n int) int { return (n + 3) &^ 3 }

// Text encodes a string as the value of an attribute.
func Text(s string) []byte { return append([]byte(s), 0) }

// Word encodes a number of 32 bits as the value of an attribute.
func Word(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// ParseText returns the string in a value, without the terminating zero byte.
func ParseText(value []byte) string {
	before, _, _ := bytes.Cut(value, []byte{0})
	return string(before)
}

// ParseWord returns the number in a value of 32 bits, or 0 if the value is shorter.
func ParseWord(value []byte) uint32 {
	if len(value) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(value)
}
