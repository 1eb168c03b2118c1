package snapshot

import "rdma_events/internal/device/verbs"

// netDev is the state of a port's network device. Unknown values are absent.
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

// link is the reason for a missing link; empty if there is a link, or if the driver reports no reason.
type link struct {
	ExtState    string `json:"ext_state,omitempty"`
	ExtSubstate string `json:"ext_substate,omitempty"`
}

func newLink(l *verbs.Link) link { return link{l.ExtState, l.ExtSubstate} }
