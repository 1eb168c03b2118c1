package verbs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// activePorts returns active InfiniBand ports of one board type with these rates.
func activePorts(rates ...float64) []verbs.ComparedPort {
	var ports []verbs.ComparedPort
	for _, rate := range rates {
		ports = append(ports, verbs.ComparedPort{BoardID: "MT_0000000838", LinkLayer: verbs.LinkInfiniBand, Active: true, RateGbps: rate})
	}
	return ports
}

func changePorts(change func(*verbs.ComparedPort), ports []verbs.ComparedPort) []verbs.ComparedPort {
	for i := range ports {
		change(&ports[i])
	}
	return ports
}

func TestPortsAreComparedWithTheirLike(t *testing.T) {
	storage := func(p *verbs.ComparedPort) { p.Role = "storage" }
	other := func(p *verbs.ComparedPort) { p.BoardID = "MT_0000000437" }
	ethernet := func(p *verbs.ComparedPort) { p.LinkLayer = verbs.LinkEthernet }
	down := func(p *verbs.ComparedPort) { p.Active = false }
	virtual := func(p *verbs.ComparedPort) { p.VirtualFunction = true }
	unnamed := func(p *verbs.ComparedPort) { p.BoardID = "" }
	join := func(groups ...[]verbs.ComparedPort) (all []verbs.ComparedPort) {
		for _, g := range groups {
			all = append(all, g...)
		}
		return all
	}
	for name, row := range map[string]struct {
		ports []verbs.ComparedPort
		want  []float64
	}{
		"one port":                      {activePorts(100), []float64{0}},
		"all alike":                     {activePorts(400, 400, 400, 400), []float64{0, 0, 0, 0}},
		"one slow leg of two":           {activePorts(200, 400), []float64{400, 0}},
		"one slow of eight":             {activePorts(400, 400, 400, 200, 400, 400, 400, 400), []float64{0, 0, 0, 400, 0, 0, 0, 0}},
		"two slow of eight":             {activePorts(400, 400, 200, 400, 400, 100, 400, 400), []float64{0, 0, 400, 0, 0, 400, 0, 0}},
		"one slow of three":             {activePorts(400, 100, 400), []float64{0, 400, 0}},
		"half and half of four":         {activePorts(200, 200, 400, 400), make([]float64, 4)},
		"half and half of eight":        {activePorts(200, 200, 200, 200, 400, 400, 400, 400), make([]float64, 8)},
		"one faster than all":           {activePorts(200, 200, 200, 400), make([]float64, 4)},
		"most of the faster ones":       {activePorts(100, 400, 400, 400, 800), []float64{400, 0, 0, 0, 0}},
		"faster ones that differ":       {activePorts(100, 400, 200), []float64{200, 0, 0}},
		"storage beside compute":        {join(activePorts(400, 400, 400, 400), changePorts(storage, activePorts(200))), make([]float64, 5)},
		"slow storage beside compute":   {join(activePorts(400, 400, 400), changePorts(storage, activePorts(200, 100))), []float64{0, 0, 0, 0, 200}},
		"another board type":            {join(activePorts(400, 400, 400), changePorts(other, activePorts(100))), make([]float64, 4)},
		"another link layer":            {join(activePorts(400, 400, 400), changePorts(ethernet, activePorts(100))), make([]float64, 4)},
		"faster ones are down":          {join(activePorts(200), changePorts(down, activePorts(400, 400, 400))), make([]float64, 4)},
		"a port that is down":           {join(changePorts(down, activePorts(10)), activePorts(400, 400)), make([]float64, 3)},
		"functions beside their card":   {join(activePorts(400, 400, 400), changePorts(virtual, activePorts(100))), make([]float64, 4)},
		"a slow function of four":       {changePorts(virtual, activePorts(400, 400, 100, 400)), []float64{0, 0, 400, 0}},
		"without a board type, as soft": {changePorts(unnamed, activePorts(10, 40, 40)), make([]float64, 3)},
		"a rate that is unknown":        {activePorts(0, 400, 400), make([]float64, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, verbs.ExpectedRates(row.ports))
		})
	}
}
