package sysfs_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// pciLinkTree returns the sysfs of a card below a root port, both PCIe 5 with 16 lanes. changes replaces and adds files.
func pciLinkTree(changes tree) tree {
	const port, cardTree = "devices/pci0000:15/0000:15:01.0/", "devices/pci0000:15/0000:15:01.0/0000:16:00.0/"
	t := tree{
		"bus/pci/devices/0000:16:00.0": "-> ../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0",
		"bus/pci/devices/0000:00:00.0": "-> ../../../devices/pci0000:00/0000:00:00.0",
		port + "max_link_speed":        "32.0 GT/s PCIe\n", port + "max_link_width": "16\n", port + "vendor": "0x8086\n",
		cardTree + "max_link_speed": "32.0 GT/s PCIe\n", cardTree + "max_link_width": "16\n", cardTree + "vendor": "0x15b3\n",
		cardTree + "current_link_speed": "32.0 GT/s PCIe\n", cardTree + "current_link_width": "16\n",
		"devices/pci0000:00/0000:00:00.0/vendor": "0x8086\n",
	}
	for name, text := range changes {
		switch name[:4] {
		case "port":
			t[port+name[5:]] = text
		case "card":
			t[cardTree+name[5:]] = text
		default:
			t[name] = text
		}
	}
	maps.DeleteFunc(t, func(_, text string) bool { return text == "" })
	return t
}

func pciLink(speed float64, width int, bestSpeed float64, bestWidth int) verbs.PCILink {
	return verbs.PCILink{SpeedGTs: speed, Width: width, BestSpeedGTs: bestSpeed, BestWidth: bestWidth}
}

func TestPCILinkIsComparedWithWhatBothEndsSupport(t *testing.T) {
	for name, row := range map[string]struct {
		files tree
		want  verbs.PCILink
	}{
		"as good as it gets":     {nil, pciLink(32, 16, 32, 16)},
		"a card in an old slot":  {tree{"port max_link_speed": "16.0 GT/s PCIe\n", "card current_link_speed": "16.0 GT/s PCIe\n"}, pciLink(16, 16, 16, 16)},
		"a card in a short slot": {tree{"port max_link_width": "8\n", "card current_link_width": "8\n"}, pciLink(32, 8, 32, 8)},
		"slow":                   {tree{"card current_link_speed": "8.0 GT/s PCIe\n"}, pciLink(8, 16, 32, 16)},
		"narrow, older kernel":   {tree{"card current_link_speed": "32 GT/s\n", "card current_link_width": "4\n"}, pciLink(32, 4, 32, 16)},
		"does not answer":        {tree{"card current_link_speed": "Unknown\n", "card current_link_width": "63\n"}, verbs.PCILink{}},
		"no files, as mlx4 once": {tree{"card current_link_speed": ""}, verbs.PCILink{}},
		"a virtual function":     {tree{"card physfn": "-> ../0000:16:00.1"}, verbs.PCILink{}},
		"below an emulated port": {tree{"port vendor": "0x1b36\n"}, verbs.PCILink{}},
		"in a machine of QEMU":   {tree{"devices/pci0000:00/0000:00:00.0/subsystem_vendor": "0x1af4\n"}, verbs.PCILink{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := pciLinkTree(row.files).mount(t).PCILink("0000:16:00.0")
			require.Equal(t, row.want, got)
			require.Equal(t, name == "slow" || name == "narrow, older kernel", got.Degraded())
		})
	}
	root := tree{
		"bus/pci/devices/0000:00:05.0":                       "-> ../../../devices/pci0000:00/0000:00:05.0",
		"devices/pci0000:00/0000:00:05.0/current_link_speed": "8.0 GT/s PCIe\n",
	}
	require.Zero(t, root.mount(t).PCILink("0000:00:05.0"), "no port is above it")
	require.Zero(t, root.mount(t).PCILink(""))
}

func TestPCILinkIsNamed(t *testing.T) {
	require.Equal(t, "PCIe 32 GT/s x16", verbs.PCILink{SpeedGTs: 32, Width: 16, BestSpeedGTs: 32, BestWidth: 16}.String())
	require.Equal(t, "PCIe 2.5 GT/s x8 of 16 GT/s x16", verbs.PCILink{SpeedGTs: 2.5, Width: 8, BestSpeedGTs: 16, BestWidth: 16}.String())
	require.Empty(t, verbs.PCILink{}.String())
}
