package health

import (
	"fmt"
	"time"

	"rdma_events/internal/measure"
)

// fabricPort judges the own link of a port, the only thing about the network between hosts that a host knows by itself.
func (k *Keeper) fabricPort(p *measure.FabricPort) {
	if p.Bad {
		k.lasts(&fabricOwnLink, subject{device: p.Device, port: p.Port}, p.At.Add(-time.Duration(p.VerdictAgeNS)),
			fmt.Sprintf("the port does not reach its peers: %d probes lost on the way there and %d on the way back, in all", p.ForwardLost, p.ReverseLost))
	}
}
