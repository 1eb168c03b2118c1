package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNarrowPCIeLinkIsAWarning(t *testing.T) {
	const port, card = "sys/devices/pci0000:3a/0000:3a:00.0/", "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/"
	link := tree{
		"sys/bus/pci/devices/0000:3b:00.0": "-> ../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0",
		port + "max_link_speed":            "16.0 GT/s PCIe\n", port + "max_link_width": "16\n",
		card + "max_link_speed": "16.0 GT/s PCIe\n", card + "max_link_width": "16\n",
		card + "current_link_speed": "16.0 GT/s PCIe\n", card + "current_link_width": "16\n",
	}
	r := Run(t.Context(), newHost(t, healthyTree().with(link), workingWorker()))
	require.Equal(t, []Result{{Check: "pcie_link", Subject: "mlx5_0", Text: "PCIe 16 GT/s x16, as both ends support"}}, r.resultsOf("pcie_link"))
	link[card+"current_link_width"] = "4\n"
	r = Run(t.Context(), newHost(t, healthyTree().with(link), workingWorker()))
	require.Len(t, r.resultsOf("pcie_link"), 1)
	require.Equal(t, Warn, r.resultsOf("pcie_link")[0].Status)
	require.Contains(t, r.resultsOf("pcie_link")[0].Text, "PCIe 16 GT/s x4 of 16 GT/s x16")
	require.Empty(t, r.resultsOf("pcie_link")[0].Fix)
}
