package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhichPCIFunctionsAreForRDMA(t *testing.T) {
	for _, tt := range []struct {
		name, class, vendor, device string
		want                        bool
	}{
		{"ConnectX-7, InfiniBand", "0x020700", "0x15b3", "0x1021", true},
		{"ConnectX-7, Ethernet", "0x020000", "0x15b3", "0x1021", true},
		{"Omni-Path", "0x020800", "0x8086", "0x24f0", true},
		{"EFA", "0x020000", "0x1d0f", "0xefa2", true},
		{"Amazon's ENA", "0x020000", "0x1d0f", "0xec20", false},
		{"a management function of BlueField", "0x080100", "0x15b3", "0xc2d3", false},
		{"a network card that has no RDMA, or has it as an option", "0x020000", "0x8086", "0x1521", false},
		{"nothing is known", "", "", "", false},
	} {
		require.Equal(t, tt.want, isForRDMA(tt.class, tt.vendor, tt.device), tt.name)
	}
}
