package verbs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// at returns active InfiniBand ports of one board type with these rates.
func at(rates ...float64) []verbs.ComparedPort {
	var ports []verbs.ComparedPort
	for _, rate := range rates {
		ports = append(ports, verbs.ComparedPort{BoardID: "MT_0000000838", LinkLayer: verbs.LinkInfiniBand, Active: true, RateGbps: rate})
	}
	return ports
}

func as(change func(*verbs.ComparedPort), ports []verbs.ComparedPort) []verbs.ComparedPort {
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
		"one port":                      {at(100), []float64{0}},
		"all alike":                     {at(400, 400, 400, 400), []float64{0, 0, 0, 0}},
		"one slow leg of two":           {at(200, 400), []float64{400, 0}},
		"one slow of eight":             {at(400, 400, 400, 200, 400, 400, 400, 400), []float64{0, 0, 0, 400, 0, 0, 0, 0}},
		"two slow of eight":             {at(400, 400, 200, 400, 400, 100, 400, 400), []float64{0, 0, 400, 0, 0, 400, 0, 0}},
		"one slow of three":             {at(400, 100, 400), []float64{0, 400, 0}},
		"half and half of four":         {at(200, 200, 400, 400), make([]float64, 4)},
		"half and half of eight":        {at(200, 200, 200, 200, 400, 400, 400, 400), make([]float64, 8)},
		"one faster than all":           {at(200, 200, 200, 400), make([]float64, 4)},
		"most of the faster ones":       {at(100, 400, 400, 400, 800), []float64{400, 0, 0, 0, 0}},
		"faster ones that differ":       {at(100, 400, 200), []float64{200, 0, 0}},
		"storage beside compute":        {join(at(400, 400, 400, 400), as(storage, at(200))), make([]float64, 5)},
		"slow storage beside compute":   {join(at(400, 400, 400), as(storage, at(200, 100))), []float64{0, 0, 0, 0, 200}},
		"another board type":            {join(at(400, 400, 400), as(other, at(100))), make([]float64, 4)},
		"another link layer":            {join(at(400, 400, 400), as(ethernet, at(100))), make([]float64, 4)},
		"faster ones are down":          {join(at(200), as(down, at(400, 400, 400))), make([]float64, 4)},
		"a port that is down":           {join(as(down, at(10)), at(400, 400)), make([]float64, 3)},
		"functions beside their card":   {join(at(400, 400, 400), as(virtual, at(100))), make([]float64, 4)},
		"a slow function of four":       {as(virtual, at(400, 400, 100, 400)), []float64{0, 0, 400, 0}},
		"without a board type, as soft": {as(unnamed, at(10, 40, 40)), make([]float64, 3)},
		"a rate that is unknown":        {at(0, 400, 400), make([]float64, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, verbs.ExpectedRates(row.ports))
		})
	}
}
