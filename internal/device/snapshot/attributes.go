package snapshot

import "rdma_events/internal/device/verbs"

// attributes holds the attributes of a device, under the names of the fields of rdma_device.
type attributes struct {
	Driver          string `json:"driver,omitempty"`
	Firmware        string `json:"fw_ver,omitempty"`
	BoardID         string `json:"board_id,omitempty"`
	PCIAddress      string `json:"pci_address,omitempty"`
	NUMANode        *int   `json:"numa_node,omitempty"`
	NodeGUID        string `json:"node_guid,omitempty"`
	SysImageGUID    string `json:"sys_image_guid,omitempty"`
	Transport       string `json:"transport,omitempty"`
	Ports           int    `json:"ports,omitempty"`
	Vectors         int    `json:"vectors,omitempty"`
	EventsSupported bool   `json:"events_supported"`
	VirtualFunction bool   `json:"is_vf"`
}

func newAttributes(a verbs.DeviceAttr) attributes {
	all := attributes{
		Driver: a.Driver, Firmware: a.Firmware, BoardID: a.BoardID, PCIAddress: a.PCIAddress, NodeGUID: a.NodeGUID,
		SysImageGUID: a.SysImageGUID, Transport: a.Transport, Ports: a.Ports, Vectors: a.Vectors,
		EventsSupported: a.EventsSupported, VirtualFunction: a.VirtualFunction,
	}
	if a.NUMANode >= 0 {
		all.NUMANode = &a.NUMANode
	}
	return all
}

// port holds the attributes of a port, under the names of the fields of rdma_port.
type port struct {
	State      string  `json:"state"`
	Phys       string  `json:"phys_state"`
	LinkLayer  string  `json:"link_layer"`
	MTU        int     `json:"mtu,omitempty"`
	LID        int     `json:"lid,omitempty"`
	SMLID      int     `json:"sm_lid,omitempty"`
	Width      string  `json:"width,omitempty"`
	RateGbps   float64 `json:"rate_gbps,omitempty"`
	NetDev     string  `json:"netdev,omitempty"`
	LinkDowned *uint64 `json:"link_downed,omitempty"`
}

func newPort(a *verbs.PortAttr) port {
	p := port{
		State: a.State.String(), Phys: a.Phys.String(), LinkLayer: a.LinkLayer.String(), MTU: a.MTU, LID: a.LID, SMLID: a.SMLID,
		Width: a.Width, RateGbps: a.RateGbps, NetDev: a.NetDev,
	}
	if a.HasLinkDowned {
		p.LinkDowned = &a.LinkDowned
	}
	return p
}

// gid is a filled entry of a GID table.
type gid struct {
	Index  int    `json:"index"`
	GID    string `json:"gid"`
	Type   string `json:"type"`
	NetDev string `json:"netdev,omitempty"`
}

func newGIDs(table []verbs.GID) []gid {
	all := make([]gid, 0, len(table))
	for _, g := range table {
		all = append(all, gid{g.Index, g.String(), g.Type.String(), g.NetDev})
	}
	return all
}
