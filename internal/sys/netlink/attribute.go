package netlink

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Attribute appends an attribute (struct nlattr), padded to four bytes. A nested one needs
// unix.NLA_F_NESTED in kind.
func Attribute(to []byte, kind uint16, value []byte) []byte {
	to = binary.NativeEndian.AppendUint16(to, uint16(unix.SizeofNlAttr+len(value)))
	to = append(binary.NativeEndian.AppendUint16(to, kind), value...)
	return append(to, make([]byte, aligned(len(value))-len(value))...)
}

// Each calls f for each attribute of a body, or of a nested attribute. kind has no flags. An
// error of f, or an attribute that is cut off, ends it.
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
		raw = raw[min(aligned(size), len(raw)):]
	}
	return nil
}

func aligned(n int) int { return (n + 3) &^ 3 } // NLA_ALIGN

// Text returns the value of an attribute that holds a string.
func Text(s string) []byte { return append([]byte(s), 0) }

// Word returns the value of an attribute of 32 bits.
func Word(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// ParseText returns the string in a value, with or without its zero byte.
func ParseText(value []byte) string {
	before, _, _ := bytes.Cut(value, []byte{0})
	return string(before)
}

// ParseWord returns the number in a value of 32 bits, 0 if it is shorter.
func ParseWord(value []byte) uint32 {
	if len(value) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(value)
}
