package ethtool

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// driver answers as the kernel does for a driver with these statistics. The value of each is 1000
// plus its position.
type driver struct {
	names []string
	asked []uint32 // the commands
	each  func()   // before each command, unless nil
}

func (d *driver) do(data []byte) error {
	if d.each != nil {
		d.each()
	}
	command, n := binary.NativeEndian.Uint32(data), len(d.names)
	d.asked = append(d.asked, command)
	switch command {
	case unix.ETHTOOL_GSSET_INFO:
		binary.NativeEndian.PutUint32(data[16:], uint32(n))
	case unix.ETHTOOL_GSTRINGS:
		binary.NativeEndian.PutUint32(data[8:], uint32(n))
		for i, name := range d.names {
			copy(data[min(12+nameSize*i, len(data)):], name)
		}
	case unix.ETHTOOL_GSTATS:
		binary.NativeEndian.PutUint32(data[4:], uint32(n))
		for i := range min(n, (len(data)-8)/8) {
			binary.NativeEndian.PutUint64(data[8+8*i:], uint64(1000+i))
		}
	default:
		return unix.EOPNOTSUPP
	}
	return nil
}

func TestValuesStandAtTheirNames(t *testing.T) {
	long := strings.Repeat("x", nameSize-4) + "_err" // without a zero at its end
	d := driver{names: []string{"rx_packets", "rx_prio3_pause", "", "RX Discards ", "rx_err\x01or", "rx_prio3_pause", long, "tx_bytes", "caf\xe9_drop"}}
	s, err := readStatistics(d.do, isWanted)
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"rx_prio3_pause": 1001, "RX Discards": 1003, long: 1006}, s.Values)
	require.Equal(t, 9, s.Claimed)
	require.Equal(t, 1, s.LeftOut, "the second of one name")
}

func TestStatisticsAreWantedByTheirNames(t *testing.T) {
	for name, want := range map[string]bool{
		"rx_prio3_pause": true, "tx_global_pause_duration": true, "rx_discards_phy": true, "rx_vport_rdma_unicast_packets": false,
		"outbound_pci_stalled_wr": false, "port.rx_dropped": true, "rx_crc_errors_phy": true, "rx_symbol_err_phy": true,
		"rx_err_lane_0_phy": true, "err": true, "rx_pcs_errs": true, "cnp_sent": true, "rx_ecn_mark": true, "rx_out_of_buffer": true,
		"rx_interrupts": false, "tx_deferred": false, "rx_error": true, "tx_queue_0_bytes": false, "rx_berry_err": true, "": false,
	} {
		require.Equal(t, want, isWanted([]byte(name)), name)
	}
}

func TestStatisticsOfQueuesAreLeftOutFirst(t *testing.T) {
	var d driver
	for queue := range 100 { // in front, as bnxt_en lists them
		for _, what := range []string{"rx_ucast_packets", "rx_discards", "rx_errors", "tx_errors"} {
			d.names = append(d.names, fmt.Sprintf("[%d]: %s", queue, what))
		}
	}
	for priority := range 8 {
		d.names = append(d.names, fmt.Sprintf("rx_prio%d_pause", priority), fmt.Sprintf("rx_prio%d_bytes", priority))
	}
	d.names = append(d.names, "rx_fcs_err_frames")
	s, err := readStatistics(d.do, isWanted)
	require.NoError(t, err)
	require.Len(t, s.Values, maxValues)
	require.Equal(t, 300+8+1-maxValues, s.LeftOut)
	for priority := range 8 {
		require.Contains(t, s.Values, fmt.Sprintf("rx_prio%d_pause", priority))
	}
	require.Contains(t, s.Values, "rx_fcs_err_frames")
	require.Contains(t, s.Values, "[0]: rx_discards", "the rest in the driver's order")
	require.NotContains(t, s.Values, "[99]: rx_discards")
}

func TestDriverThatClaimsTooManyIsNotRead(t *testing.T) {
	d := driver{names: make([]string, 100_000)}
	_, err := readStatistics(d.do, isWanted)
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "claims 100000 statistics")
	require.Equal(t, []uint32{unix.ETHTOOL_GSSET_INFO}, d.asked)

	d = driver{names: make([]string, maxClaimed)}
	d.names[maxClaimed-1] = "rx_drops"
	s, err := readStatistics(d.do, isWanted)
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"rx_drops": 1000 + maxClaimed - 1}, s.Values)
}

func TestDriverWithoutStatisticsIsNotAskedForThem(t *testing.T) {
	var d driver
	s, err := readStatistics(d.do, isWanted)
	require.NoError(t, err)
	require.Zero(t, s)
	require.Equal(t, []uint32{unix.ETHTOOL_GSSET_INFO}, d.asked)
}

func TestStatisticsThatChangeMeanwhileAreRefused(t *testing.T) {
	for change := 1; change <= 2; change++ {
		for _, names := range [][]string{{"rx_drops"}, {"rx_drops", "rx_errors", "tx_errors"}} {
			d := driver{names: []string{"rx_errors", "rx_drops"}}
			d.each = func() {
				if len(d.asked) == change {
					d.names = names
				}
			}
			s, err := readStatistics(d.do, isWanted)
			require.ErrorContains(t, err, fmt.Sprintf("changed while they were read, from 2 to %d", len(names)))
			require.Zero(t, s)
			require.Len(t, d.asked, change+1)
		}
	}
}

func TestRefusedCommandsSayWhichOne(t *testing.T) {
	for n, want := range []string{"count them", "read their names", "read their values"} {
		d := driver{names: []string{"rx_drops"}}
		_, err := readStatistics(func(data []byte) error {
			if len(d.asked) == n {
				return unix.EPERM
			}
			return d.do(data)
		}, isWanted)
		require.ErrorIs(t, err, ErrPermission)
		require.True(t, strings.HasPrefix(err.Error(), want), err)
	}
}

func FuzzNamesAreChosenWithinBounds(f *testing.F) {
	f.Add([]byte("rx_drops"), uint16(300))
	f.Add([]byte("rx0_err\x00\xff"), uint16(1))
	f.Fuzz(func(t *testing.T, seed []byte, n uint16) {
		names := make([]byte, int(n%2000)*nameSize)
		for i := 0; len(seed) > 0 && i < len(names); i++ {
			names[i] = seed[i%len(seed)]
		}
		chosen, left := chooseStatistics(names, isWanted)
		require.LessOrEqual(t, len(chosen), maxValues)
		require.LessOrEqual(t, len(chosen)+left, len(names)/nameSize)
		seen := map[string]bool{}
		for _, c := range chosen {
			require.Less(t, c.index, len(names)/nameSize)
			require.True(t, isWanted([]byte(strings.ToLower(c.name))), "%q", c.name)
			require.False(t, seen[c.name])
			seen[c.name] = true
		}
	})
}
