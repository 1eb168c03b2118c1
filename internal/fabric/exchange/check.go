package exchange

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/verdict"
)

// The limits of the values that a peer may send. They follow the hardware's limits where there are any.
const (
	maxDeviceName = 63 // IB_DEVICE_NAME_MAX (rdma/ib_verbs.h) with its final NUL is 64
	maxDigest     = 64
	maxPosition   = 1023
	maxPort       = 255    // port numbers have 8 bits
	maxGIDs       = 64     // of a port
	maxGIDIndex   = 0xffff // a GID table has that many entries at most (InfiniBand specification, 14.2.5.6)
	minQP         = 2      // 0 and 1 are the subnet manager's and the general services': probes must never go there
	maxQP         = 1<<24 - 1
	maxPSN        = 1<<24 - 1
	maxQKey       = 1<<31 - 1 // with the top bit, the sender's own Q_Key would be sent in its place
	maxLID        = 0xbfff    // those above are multicast
	maxPorts      = 1024      // of an answer to State
	maxSessions   = 1024      // of Held, Lacking and a State request
	maxEpochs     = 1024
	maxDevices    = 256 // of an offer
)

// isDevice reports whether name is a valid device name. It must be a possible directory name in sysfs, and printable ASCII for logs and tags.
func isDevice(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxDeviceName &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' })
}

// isDigest reports whether s may be the digest of a list. Other versions may use other forms.
func isDigest(s string) bool {
	return len(s) <= maxDigest && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != ':' && r != '-'
	})
}

// isReason reports whether a peer may send this reason. ReasonOwnPort is not valid, since a peer cannot know it.
func isReason(r verdict.Reason) bool {
	_, known := r.Row()
	return r == verdict.ReasonNone || known && r != verdict.ReasonOwnPort
}

// checkRange returns an error unless least <= v <= most. The error contains no text of the peer.
func checkRange(what string, v, least, most uint64) error {
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
		checkRange("the number of the RC queue pair", uint64(rc), minQP, maxQP),
		checkRange("the PSN", uint64(psn), 0, maxPSN),
	)
}

// checkPlace checks a device name and a port number.
func checkPlace(device string, port uint32) error {
	if !isDevice(device) {
		return fmt.Errorf("%w: no device has such a name", ErrMalformed)
	}
	return checkRange("the port", uint64(port), 1, maxPort)
}

// checkMTU checks an MTU in bytes. 0 means that the MTU is not known.
func checkMTU(mtu uint32) error {
	switch mtu {
	case 0, 256, 512, 1024, 2048, 4096:
		return nil
	}
	return fmt.Errorf("%w: an MTU of %d", ErrMalformed, mtu)
}

// checkLinkLayer checks that a link layer supports a Fabric.
func checkLinkLayer(layer uint32) error {
	return checkRange("the link layer", uint64(layer), uint64(verbs.LinkInfiniBand), uint64(verbs.LinkEthernet))
}

// checkUD checks the numbers of the UD queue pairs.
func checkUD(ud []uint32) error {
	if err := checkRange("the number of UD queue pairs", uint64(len(ud)), 1, verbs.MaxFabricPaths); err != nil {
		return err
	}
	for _, n := range ud {
		if err := checkRange("the number of a UD queue pair", uint64(n), minQP, maxQP); err != nil {
			return err
		}
	}
	return nil
}

// parseGID parses a GID of 16 bytes. It must be the address of a single remote port, so that packets may be sent to it.
func parseGID(raw []byte) ([16]byte, error) {
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
