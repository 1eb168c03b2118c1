package exchange

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/verdict"
)

// The limits of what a peer may say. They are those of the hardware where it has some.
const (
	longestDevice = 63 // IB_DEVICE_NAME_MAX (rdma/ib_verbs.h) with its final NUL is 64
	longestDigest = 64
	mostPosition  = 1023
	mostPort      = 255    // port numbers have 8 bits
	mostGIDs      = 64     // of a port
	mostGIDIndex  = 0xffff // a GID table has that many entries at most (InfiniBand specification, 14.2.5.6)
	leastQP       = 2      // 0 and 1 are the subnet manager's and the general services': probes must never go there
	mostQP        = 1<<24 - 1
	mostPSN       = 1<<24 - 1
	mostQKey      = 1<<31 - 1 // with the top bit, the sender's own Q_Key would be sent in its place
	mostLID       = 0xbfff    // those above are multicast
	mostPorts     = 1024      // of an answer to State
	mostSessions  = 1024      // of Held, Lacking and a question for the State
	mostEpochs    = 1024
	mostDevices   = 256 // of an offer
)

// isDevice reports whether a device can have this name. It is a directory of sysfs; that it is printable ASCII is the
// demand of logs and tags.
func isDevice(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= longestDevice &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' })
}

// isDigest reports whether this may be the digest of a list. That of another version may have another form.
func isDigest(s string) bool {
	return len(s) <= longestDigest && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != ':' && r != '-'
	})
}

// isReason reports whether a peer can refuse for this reason, or for none. What rests with the own port of a pair is no refusal.
func isReason(r verdict.Reason) bool {
	_, known := r.Row()
	return r == verdict.ReasonNone || known && r != verdict.ReasonOwnPort
}

// within returns an error unless least <= v <= most. The error has no text of the peer.
func within(what string, v, least, most uint64) error {
	if v < least || v > most {
		return fmt.Errorf("%w: %s is %d, want %d to %d", ErrMalformed, what, v, least, most)
	}
	return nil
}

// checkPair checks the numbers of an end of a pair.
func checkPair(session uint64, rc, psn uint32) error {
	if session == 0 {
		return fmt.Errorf("%w: no session", ErrMalformed)
	}
	return errors.Join(
		within("the number of the RC queue pair", uint64(rc), leastQP, mostQP),
		within("the PSN", uint64(psn), 0, mostPSN),
	)
}

// checkPlace checks the name of a device and the number of a port.
func checkPlace(device string, port uint32) error {
	if !isDevice(device) {
		return fmt.Errorf("%w: no device has such a name", ErrMalformed)
	}
	return within("the port", uint64(port), 1, mostPort)
}

// checkMTU checks an MTU in bytes; 0 is one that is not known.
func checkMTU(mtu uint32) error {
	switch mtu {
	case 0, 256, 512, 1024, 2048, 4096:
		return nil
	}
	return fmt.Errorf("%w: an MTU of %d", ErrMalformed, mtu)
}

// checkLink checks a link layer that has a Fabric.
func checkLink(layer uint32) error {
	return within("the link layer", uint64(layer), uint64(verbs.LinkInfiniBand), uint64(verbs.LinkEthernet))
}

// checkUD checks the numbers of the UD queue pairs.
func checkUD(ud []uint32) error {
	if err := within("the number of UD queue pairs", uint64(len(ud)), 1, verbs.MaxFabricPaths); err != nil {
		return err
	}
	for _, n := range ud {
		if err := within("the number of a UD queue pair", uint64(n), leastQP, mostQP); err != nil {
			return err
		}
	}
	return nil
}

// gid returns a GID of 16 bytes to which packets may be sent: it is of one port, and not of this one.
func gid(raw []byte) ([16]byte, error) {
	if len(raw) != 16 {
		return [16]byte{}, fmt.Errorf("%w: a GID of %d bytes", ErrMalformed, len(raw))
	}
	g := [16]byte(raw)
	a := netip.AddrFrom16(g).Unmap()
	if a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return [16]byte{}, fmt.Errorf("%w: the GID of no single port", ErrMalformed)
	}
	return g, nil
}
