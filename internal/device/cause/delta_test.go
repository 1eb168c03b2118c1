package cause

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestCompareReturnsWhatMoved(t *testing.T) {
	before := verbs.Counters{
		verbs.CountersPort:     {"symbol_error": 5, "link_downed": 2, "port_xmit_wait": math.MaxUint64 - 1, "VL15_dropped": 1},
		verbs.CountersHardware: {"out_of_buffer": 10, "gone": 3, "active_qps": 9, "symbol_error": 0},
		"elsewhere":            {"x": 1},
	}
	after := verbs.Counters{
		verbs.CountersPort:     {"symbol_error": 22, "link_downed": 2, "port_xmit_wait": math.MaxUint64, "VL15_dropped": 0},
		verbs.CountersHardware: {"out_of_buffer": 4, "new": 7, "active_qps": 4, "symbol_error": 1},
		verbs.CountersNetDev:   {"rx_prio3_pause": 48213},
	}
	require.Equal(t, Deltas{
		{Source: verbs.CountersPort, Name: "VL15_dropped", Reset: true},
		{Source: verbs.CountersPort, Name: "port_xmit_wait", By: 1},
		{Source: verbs.CountersPort, Name: "symbol_error", By: 17},
		{Source: verbs.CountersHardware, Name: "out_of_buffer", Reset: true},
		{Source: verbs.CountersHardware, Name: "symbol_error", By: 1},
	}, Compare(before, after))
	require.Empty(t, Compare(nil, after), "the first reading is a base")
	require.Empty(t, Compare(before, nil))
	require.Empty(t, Compare(after, after))
}

func TestTopHasTrafficAfterTheRest(t *testing.T) {
	moved := Deltas{
		{Name: "rx_prio3_bytes", By: 9e12}, {Name: "port_rcv_data", By: 8e12}, {Name: "rx_unicast", By: 7e9},
		{Name: "rx_prio3_pause", By: 48213}, {Name: "symbol_error", By: 17}, {Name: "never_seen_before", By: 17},
		{Name: "np_ecn_marked_roce_packets", By: 400}, {Name: "rx_fec_blocks", Reset: true},
	}
	require.Equal(t, "rx_prio3_pause +48213, np_ecn_marked_roce_packets +400, never_seen_before +17, symbol_error +17, "+
		"rx_prio3_bytes +9000000000000, port_rcv_data +8000000000000, rx_unicast +7000000000, rx_fec_blocks reset", moved.Top(8))
	require.Equal(t, "rx_prio3_pause +48213, np_ecn_marked_roce_packets +400", moved.Top(2))
	require.Equal(t, Delta{Name: "rx_prio3_bytes", By: 9e12}, moved[0], "Top leaves the order of the deltas")
	require.Empty(t, moved.Top(0))
	require.Empty(t, Deltas(nil).Top(8))
}

func TestTopHasANameOnce(t *testing.T) {
	moved := Deltas{
		{Source: verbs.CountersPort, Name: "link_downed", By: 1}, {Source: verbs.CountersHardware, Name: "link_downed", By: 3},
		{Source: verbs.CountersNetDev, Name: "rx_drops", By: 2},
	}
	require.Equal(t, "link_downed +3, rx_drops +2", moved.Top(8))
}

// TestRanksOfCountersThatDriversHave uses the names of counters of mlx5, rxe, bnxt_re, irdma, efa
// and the InfiniBand standard.
func TestRanksOfCountersThatDriversHave(t *testing.T) {
	for want, names := range map[rank][]string{
		relevant: {
			"rx_prio3_pause", "rx_discards_phy", "np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets", "out_of_buffer",
			"out_of_sequence", "duplicate_request", "packet_seq_err", "rnr_nak_retry_err", "rx_undersize_pkts_phy", "port_xmit_wait",
			"VL15_dropped", "link_downed", "roce_adp_retrans", "tx_cnp_pkts", "rx_ecn_marked_pkts", "ip4InDiscards", "tcpRetransSegs",
			"rx_drops", "port_rcv_errors", "excessive_buffer_overrun_errors", "link_error_recovery", "rx_err_lane_0_phy",
			"no_completion_cmds",
		},
		traffic: {
			"rx_prio3_bytes", "port_rcv_data", "port_xmit_packets", "port_unicast_xmit_packets", "multicast_rcv_packets",
			"rx_write_requests", "rx_read_requests", "rdma_sends", "sent_pkts", "rcvd_pkts", "ip4InOctets", "send_wrs",
			"rdma_read_bytes", "completed_cmds", "keep_alive_rcvd", "rx_65_to_127_octets_phy", "rx_ucast_frames",
		},
		level: {"active_qps", "watermark_mrs", "lifespan"},
	} {
		for _, name := range names {
			require.Equal(t, want, rankByName(name), name)
		}
	}
}

func TestEveryRowOfTheRanksHasAReason(t *testing.T) {
	for i, row := range ranks {
		require.NotEmpty(t, row.reason, i)
		for _, part := range row.parts {
			require.Equal(t, strings.ToLower(part), part, "names are compared in lower case")
		}
	}
}

func FuzzDeltasAddUp(f *testing.F) {
	f.Add("symbol_error", uint64(5), uint64(22), uint8(8))
	f.Add("rx_bytes", uint64(math.MaxUint64), uint64(0), uint8(0))
	f.Fuzz(func(t *testing.T, name string, was, now uint64, n uint8) {
		moved := Compare(verbs.Counters{verbs.CountersNetDev: {name: was}}, verbs.Counters{verbs.CountersNetDev: {name: now}})
		require.Equal(t, was != now && rankByName(name) != level, len(moved) == 1)
		for _, d := range moved {
			require.Equal(t, now < was, d.Reset)
			if !d.Reset {
				require.Equal(t, now, was+d.By)
			}
		}
		require.Equal(t, n > 0 && len(moved) > 0, moved.Top(int(n)) != "")
	})
}
