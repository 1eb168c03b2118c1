package snapshot

import "rdma_events/internal/device/verbs"

// netDev is what the kernel has about the network device of a port. What is unknown is absent.
type netDev struct {
	Name           string `json:"name"`
	AdminUp        bool   `json:"admin_up"`
	Carrier        *bool  `json:"carrier,omitempty"`
	CarrierChanges *int64 `json:"carrier_changes,omitempty"`
	Virtual        bool   `json:"virtual"`
}

func newNetDev(n *verbs.NetDev) netDev {
	d := netDev{Name: n.Name, AdminUp: n.AdminUp, Virtual: n.Virtual}
	if n.HasCarrier {
		d.Carrier = &n.Carrier
	}
	if n.HasCarrierChanges {
		d.CarrierChanges = &n.CarrierChanges
	}
	return d
}

// link is why there is no link; empty if there is one, or if the driver does not say.
type link struct {
	ExtState    string `json:"ext_state,omitempty"`
	ExtSubstate string `json:"ext_substate,omitempty"`
}

func newLink(l *verbs.Link) link { return link{l.ExtState, l.ExtSubstate} }
