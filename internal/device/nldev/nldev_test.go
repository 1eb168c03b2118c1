package nldev

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/sys/netlink"
)

// nest builds an attribute of parts.
func nest(kind uint16, parts ...[]byte) []byte {
	return netlink.Attribute(nil, kind, slices.Concat(parts...))
}

func u64Value(n uint64) []byte { return binary.NativeEndian.AppendUint64(nil, n) }

func TestDomainsAreSummedByOwner(t *testing.T) {
	kernel := nest(attrPDEntry, nest(attrUseCount, u64Value(2)), nest(attrKernName, []byte("ib_core\x00")))
	process := nest(attrPDEntry, nest(attrUseCount, u64Value(7)), nest(attrPID, netlink.Word(4711)))
	unseen := nest(attrPDEntry, nest(attrUseCount, u64Value(1)))
	var u Use
	require.NoError(t, u.addMessage(nest(attrPD, kernel, process, unseen)))
	require.NoError(t, u.addMessage(nest(attrPD, process, unseen)))
	require.Equal(t, []Owner{
		{Kernel: "ib_core", Domains: 1, Objects: 2}, {PID: 4711, Domains: 2, Objects: 14}, {Domains: 2, Objects: 2},
	}, u.Owners)
}

func TestCountersAreThoseOfTheMessage(t *testing.T) {
	entry := func(name string, n uint64) []byte {
		return nest(attrCounter, nest(attrCounterName, []byte(name+"\x00")), nest(attrCounterValue, u64Value(n)))
	}
	got := map[string]uint64{}
	require.NoError(t, addCounters(got, nest(attrCounters, entry("out_of_buffer", 48213), entry("rnr_nak_retry_err", 0))))
	require.NoError(t, addCounters(got, nest(attrDevIndex, netlink.Word(7))))
	require.Equal(t, map[string]uint64{"out_of_buffer": 48213, "rnr_nak_retry_err": 0}, got)
	whole := nest(attrCounters, entry("out_of_buffer", 48213))
	for n := 1; n < len(whole); n++ {
		require.Error(t, addCounters(map[string]uint64{}, whole[:n]))
	}
}

func TestNetworkDevicesAreThoseOfTheirPorts(t *testing.T) {
	port := func(number uint32, name string) []byte {
		body := nest(attrPortIndex, netlink.Word(number))
		if name != "" {
			body = append(body, nest(attrNetDevName, []byte(name+"\x00"))...)
		}
		return body
	}
	got := map[int]string{}
	for _, body := range [][]byte{port(1, ""), port(2, "pf0vf0"), port(130, "p0")} {
		require.NoError(t, addNetDev(got, body))
	}
	require.Equal(t, map[int]string{2: "pf0vf0", 130: "p0"}, got)
	require.Error(t, addNetDev(got, port(3, "p1")[:10]))
}

func TestResourcesAreThoseOfTheSummary(t *testing.T) {
	entry := func(name string, n uint64) []byte {
		return nest(attrSummaryEntry, nest(attrSummaryName, []byte(name+"\x00")), nest(attrSummaryCount, u64Value(n)))
	}
	got := map[string]uint64{}
	require.NoError(t, addSummary(got, nest(attrSummary, entry("pd", 9), entry("qp", 3), entry("mr", 8))))
	require.NoError(t, addSummary(got, nest(attrDevIndex, netlink.Word(7))))
	require.Equal(t, map[string]uint64{"pd": 9, "qp": 3, "mr": 8}, got)
}

func TestNothingOfADamagedEntryIsUsed(t *testing.T) {
	whole := nest(attrPD, nest(attrPDEntry, nest(attrPID, netlink.Word(4711))))
	for n := 1; n < len(whole); n++ {
		var u Use
		require.Error(t, u.addMessage(whole[:n]))
		require.Empty(t, u.Owners)
	}
}
