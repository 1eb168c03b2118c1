package sysfs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestParseRateReadsWhatKernelsPrint(t *testing.T) {
	for text, want := range map[string]struct {
		gbps  float64
		width string
		ok    bool
	}{
		"100 Gb/sec (4X EDR)":  {100, "4x", true},
		"2.5 Gb/sec (1X SDR)":  {2.5, "1x", true},
		"10 Gb/sec (4X)":       {10, "4x", true}, // before Linux 4.18
		"300 Gb/sec (12X EDR)": {300, "12x", true},
		"800 Gb/sec (4X XDR)":  {800, "4x", true},
		"":                     {},
		"0 Gb/sec (4X)":        {},
		"-5 Gb/sec (4X)":       {},
		"NaN Gb/sec (4X)":      {},
		"100 Gb/sec":           {},
		"100 Gb/sec (EDR)":     {},
		"100 Gb/sec (X EDR)":   {},
		"100 Gb/sec (-4X EDR)": {},
	} {
		t.Run(text, func(t *testing.T) {
			gbps, width, ok := parseRate(text)
			require.Equal(t, want.ok, ok)
			require.Equal(t, want.gbps, gbps) //nolint:testifylint // the parser returns the literal's value
			require.Equal(t, want.width, width)
		})
	}
}

func TestParseTransportFollowsLibibverbs(t *testing.T) {
	for text, want := range map[string]string{
		"1: CA": "infiniband", "2: switch": "infiniband", "3: router": "infiniband",
		"4: RNIC": "iwarp", "5: usNIC": "usnic", "6: usNIC UDP": "usnic_udp",
		"7: unspecified": "unspecified", "8: <unknown>": "", "": "",
	} {
		require.Equal(t, want, parseTransport(text), "%q", text)
	}
}

func TestPCIAddressDistinguishesFunctionsFromOtherDevices(t *testing.T) {
	for name, want := range map[string]bool{
		"0000:3b:00.1": true, "10000:01:00.0": true,
		"": false, "mlx5_core.sf.4": false, "vdevice1": false, "i40e.iwarp.0": false,
		"0000.3b.00.1": false, "0000:3b:00": false, "0000:3g:00.1": false,
	} {
		got := pciAddress(name)
		require.Equal(t, want, got == name && name != "", "%q", name)
	}
}

func TestEFARaisesNoEvents(t *testing.T) {
	require.False(t, verbs.DriverRaisesEvents("efa"))
	require.True(t, verbs.DriverRaisesEvents("mlx5_core"))
	require.True(t, verbs.DriverRaisesEvents(""))
}
