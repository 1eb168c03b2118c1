package monitor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestExpectedRateIsThatOfMostOtherPorts(t *testing.T) {
	h := startMonitor(t, nil)
	var set []verbs.Found
	for n := range 4 {
		set = append(set, foundDevice(fmt.Sprintf("mlx5_%d", n), n))
	}
	h.reportFound(set...)
	rate := func(n int, gbps float64) verbs.Item {
		return verbs.Item{Reading: &verbs.Reading{Port: 1, Mono: h.mono.Load(), Attr: verbs.PortAttr{State: verbs.PortActive, RateGbps: gbps}}}
	}
	for n, f := range set {
		sup := h.sup(f.Name, 0)
		sup.Started(h.ledger(), nil)
		h.batch(sup, verbs.Item{Opened: &verbs.DeviceAttr{Name: f.Name, Ports: 1, BoardID: "MT_0000000838"}}, rate(n, []float64{400, 400, 200, 400}[n]))
	}
	expected := func(n int) float64 { return findPort(h.gather(), fmt.Sprintf("mlx5_%d", n), 1).RateExpectedGbps }
	require.EqualValues(t, 400, expected(2), "most others have it")
	require.EqualValues(t, 400, expected(0), "its own best")
	h.mono.Add(sec)
	h.batch(h.sup("mlx5_2", 0), rate(2, 400))
	h.batch(h.sup("mlx5_0", 0), rate(0, 100))
	require.EqualValues(t, 400, expected(0), "it was faster before")
	require.EqualValues(t, 400, expected(2))
	h.reportFound(set[2])
	require.EqualValues(t, 400, expected(2), "alone")
}
