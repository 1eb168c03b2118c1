//go:build guest

package fabric

import "encoding/binary"

// The types of datagrams, and their magic.
const (
	magic  = 0x52444d46
	probe  = 1
	echo   = 2
	length = 40
)

// datagram is a probe or an echo as it is on the wire: struct datagram_wire of internal/device/native/native_fabric.h.
type datagram struct {
	version, kind, path byte
	session             uint64
	seq, rx, tx, dry    uint32
	delay               uint64
}

// parseDatagram returns false for what is no probe and no echo.
func parseDatagram(b []byte) (datagram, bool) {
	if len(b) != length || binary.BigEndian.Uint32(b) != magic {
		return datagram{}, false
	}
	word := binary.BigEndian.Uint32
	return datagram{
		version: b[4], kind: b[5], path: b[6], session: binary.BigEndian.Uint64(b[8:]),
		seq: word(b[16:]), rx: word(b[20:]), tx: word(b[24:]), dry: word(b[28:]), delay: binary.BigEndian.Uint64(b[32:]),
	}, true
}

// bytes returns the datagram as it is on the wire.
func (d datagram) bytes() []byte {
	b := binary.BigEndian.AppendUint32(nil, magic)
	b = append(b, d.version, d.kind, d.path, 0)
	b = binary.BigEndian.AppendUint64(b, d.session)
	for _, n := range []uint32{d.seq, d.rx, d.tx, d.dry} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return binary.BigEndian.AppendUint64(b, d.delay)
}
