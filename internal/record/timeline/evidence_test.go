package timeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/cause"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

func TestATerminalDoesNotObeyWhatAWorkerSays(t *testing.T) {
	const hostile = "\x1b]0;x\x07\nE! all is lost"
	r := Record{Kind: KindEvidence, Device: "mlx5_0", Port: 1, Evidence: newEvidence(&measure.Evidence{
		Trigger: "port_err", NetDev: &verbs.NetDev{Name: hostile}, ExtState: hostile, ExtSubstate: hostile,
		LeftOut: hostile, HasBase: true, Deltas: cause.Deltas{{Source: hostile, Name: hostile, By: 1}},
	})}
	require.NotContains(t, Style{}.Line(&r), "\x1b")
	require.NotContains(t, Style{}.Line(&r), "\n")
}
