package ethtool

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// fecBody builds the body of an answer about the error correction of an interface eth0, as net/ethtool/fec.c does.
func fecBody(statistics ...[]byte) []byte {
	header := netlink.Attribute(nil, unix.ETHTOOL_A_HEADER_DEV_NAME, netlink.Text("eth0"))
	body := netlink.Attribute([]byte{unix.ETHTOOL_MSG_FEC_GET_REPLY, 1, 0, 0}, fecHeader|unix.NLA_F_NESTED, header)
	body = netlink.Attribute(body, 3, []byte{1}) // ETHTOOL_A_FEC_AUTO
	if statistics != nil {
		body = netlink.Attribute(body, fecStatistics|unix.NLA_F_NESTED, slices.Concat(statistics...))
	}
	return body
}

// blocksAttr returns an attribute with a sum and the counts of lanes.
func blocksAttr(kind uint16, counts ...uint64) []byte {
	var value []byte
	for _, n := range counts {
		value = binary.NativeEndian.AppendUint64(value, n)
	}
	return netlink.Attribute(nil, kind, value)
}

func TestErrorCorrectionIsWhatTheAnswerSays(t *testing.T) {
	const bits, histogram = 4, 5                                                                     // ETHTOOL_A_FEC_STAT_CORR_BITS, ETHTOOL_A_FEC_STAT_HIST
	bin := slices.Concat(blocksAttr(2, 1), blocksAttr(3, 3), blocksAttr(4, 17), blocksAttr(5, 9, 8)) // the lanes of a bin without a sum
	for name, c := range map[string]struct {
		body []byte
		want FEC
	}{
		"totals":         {fecBody(blocksAttr(fecCorrected, 1000), blocksAttr(fecUncorrectable, 3)), FEC{1000, 3}},
		"a sum of lanes": {fecBody(blocksAttr(fecCorrected, 60, 10, 20, 30, 0), blocksAttr(fecUncorrectable, 2, 2, 0, 0, 0)), FEC{60, 2}},
		"bits between":   {fecBody(blocksAttr(fecCorrected, 1), blocksAttr(bits, 7), blocksAttr(fecUncorrectable, 0)), FEC{1, 0}},
		"a histogram": {fecBody(blocksAttr(fecCorrected, 9), blocksAttr(fecUncorrectable, 4), blocksAttr(bits, 7),
			newAttr(histogram|unix.NLA_F_NESTED, bin...)), FEC{9, 4}},
		"another sequence": {fecBody(blocksAttr(fecUncorrectable, 5), blocksAttr(1), blocksAttr(fecCorrected, 6)), FEC{6, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseFEC(c.body)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestDriverThatCountsNoBlocksIsUnsupported(t *testing.T) {
	for name, body := range map[string][]byte{
		"no statistics":    fecBody(), // before Linux 5.13, or the flag is not known
		"none set":         fecBody(blocksAttr(fecCorrected), blocksAttr(fecUncorrectable)),
		"one alone":        fecBody(blocksAttr(fecCorrected, 1)),
		"a sum of no lane": fecBody(blocksAttr(fecCorrected, ^uint64(0)), blocksAttr(fecUncorrectable, ^uint64(0))),
		"a short value":    fecBody(newAttr(fecCorrected, 1, 2), newAttr(fecUncorrectable, 3)),
	} {
		_, err := parseFEC(body)
		require.ErrorIs(t, err, ErrUnsupported, name)
	}
	_, err := parseFEC([]byte{unix.ETHTOOL_MSG_LINKSTATE_GET_REPLY, 1, 0, 0})
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrUnsupported)
}

func TestInterfacesWithoutErrorCorrectionAreUnsupported(t *testing.T) {
	ownNamespace(t)
	runIP(t, "link add near type veth peer name far")
	_, err := QueryFEC("near")
	require.ErrorIs(t, err, ErrUnsupported)
	_, err = QueryFEC("nowhere")
	require.ErrorIs(t, err, ErrNoInterface)
	_, err = QueryFEC("a_name_that_is_too_long")
	require.ErrorIs(t, err, ErrNoInterface)
}
