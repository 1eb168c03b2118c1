package ethtool

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// FEC has the counts of an interface's forward error correction since the driver or the firmware last reset them.
type FEC struct {
	Corrected     uint64 // blocks that had errors, all of which were corrected
	Uncorrectable uint64 // blocks that had more errors than can be corrected, so that packets were lost
}

// The attributes of an answer to FEC_GET (include/uapi/linux/ethtool_netlink.h, since Linux 5.13).
const (
	fecHeader        = 1 // ETHTOOL_A_FEC_HEADER
	fecStatistics    = 5 // ETHTOOL_A_FEC_STATS
	fecCorrected     = 2 // ETHTOOL_A_FEC_STAT_CORRECTED, in ETHTOOL_A_FEC_STATS
	fecUncorrectable = 3 // ETHTOOL_A_FEC_STAT_UNCORR
)

// QueryFEC reads the counts of an interface's forward error correction. It returns ErrUnsupported if the kernel, the driver or the link
// has none. It opens and closes a socket, may be called concurrently, and needs no capability. It takes the kernel's RTNL lock and may block for long; see the
// package. Some drivers ask their firmware, as mlx5 and ice do; others, as bnxt_en, have the counts in memory. A driver that fails may
// write a line to the kernel log; its result is then the same as from a driver that does not count.
func QueryFEC(name string) (FEC, error) {
	f, err := queryFEC(name)
	if err != nil {
		return FEC{}, fmt.Errorf("ask ethtool netlink for the error correction of %q: %w", name, wrapErrno(err))
	}
	return f, nil
}

func queryFEC(name string) (FEC, error) {
	header := netlink.Attribute(nil, unix.ETHTOOL_A_HEADER_DEV_NAME, netlink.Text(name))
	header = netlink.Attribute(header, unix.ETHTOOL_A_HEADER_FLAGS, binary.NativeEndian.AppendUint32(nil, unix.ETHTOOL_FLAG_STATS))
	body, err := requestInterface(name, unix.ETHTOOL_MSG_FEC_GET, netlink.Attribute(nil, fecHeader|unix.NLA_F_NESTED, header))
	if err != nil {
		return FEC{}, err
	}
	return parseFEC(body)
}

// parseFEC returns the counts in the answer to FEC_GET.
func parseFEC(body []byte) (f FEC, err error) {
	var hasCorrected, hasUncorrectable bool
	err = parseAnswer(body, unix.ETHTOOL_MSG_FEC_GET_REPLY, func(kind uint16, value []byte) error {
		if kind != fecStatistics {
			return nil
		}
		return netlink.Each(value, func(kind uint16, value []byte) error {
			switch kind {
			case fecCorrected:
				f.Corrected, hasCorrected = laneTotal(value)
			case fecUncorrectable:
				f.Uncorrectable, hasUncorrectable = laneTotal(value)
			}
			return nil
		})
	})
	if err != nil {
		return FEC{}, err
	}
	if !hasCorrected || !hasUncorrectable {
		return FEC{}, fmt.Errorf("%w: the driver does not count corrected blocks, or not on this link", ErrUnsupported)
	}
	return f, nil
}

// laneTotal returns the sum over all lanes, which precedes the counts of the single lanes. ok is false if the driver does not
// count: the kernel then leaves out all values (fec_stats_recalc in net/ethtool/fec.c).
func laneTotal(value []byte) (n uint64, ok bool) {
	const notCounted = ^uint64(0) // ETHTOOL_STAT_NOT_SET
	if len(value) < 8 {
		return 0, false
	}
	n = binary.NativeEndian.Uint64(value)
	return n, n != notCounted
}
