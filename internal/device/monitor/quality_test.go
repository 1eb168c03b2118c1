package monitor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// fecItem returns a base snapshot with the counts of the forward error correction and the other values that are read hourly.
func fecItem(at int64, corrected, uncorrectable uint64) verbs.Item {
	return snapshotItem(&verbs.Snapshot{
		Port: 1, Trigger: verbs.TriggerBase, At: at, Mono: at, Done: true, CountersAt: at,
		Counters: verbs.Counters{
			verbs.CountersFEC:   {verbs.FECCorrected: corrected, verbs.FECUncorrectable: uncorrectable},
			verbs.CountersHWMon: {verbs.Temperature: 61_500},
			verbs.CountersPort:  {"symbol_error": 7},
		},
	})
}

// gatherQuality returns the quality of the first port that the next interval emits.
func (h *harness) gatherQuality() measure.Quality {
	h.t.Helper()
	ports := h.gather().Ports
	require.NotEmpty(h.t, ports)
	return ports[0].Quality
}

func TestUncorrectableBlocksCountWhileThePortStaysActive(t *testing.T) {
	const hour = 3600 * sec
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.batch(sup, ethernetReading(0))
	require.False(t, h.gatherQuality().HasFEC)
	h.batch(sup, fecItem(sec, 1000, 40))
	q := h.gatherQuality()
	require.Equal(t, measure.Quality{
		Corrected: 1000, Uncorrectable: 40, HasFEC: true, MilliCelsius: 61_500, HasTemperature: true,
	}, q, "what was counted before, as while the link came up, is no loss on an active port; symbol errors are of InfiniBand")

	h.mono.Store(hour)
	h.batch(sup, fecItem(hour, 2000, 43))
	require.EqualValues(t, 3, h.gatherQuality().WhileActive)

	h.mono.Store(hour + sec)
	h.batch(sup, eventItem(verbs.EventPortErr, 1, 1, hour+sec, hour+sec), eventItem(verbs.EventPortActive, 1, 1, hour+2*sec, hour+2*sec))
	h.mono.Store(2 * hour)
	h.batch(sup, fecItem(2*hour, 3000, 9000))
	require.EqualValues(t, 3, h.gatherQuality().WhileActive, "the port was down between the readings")

	h.mono.Store(3 * hour)
	h.batch(sup, fecItem(3*hour, 10, 0))
	q = h.gatherQuality()
	require.EqualValues(t, 3, q.WhileActive, "the driver began anew")
	require.Zero(t, q.Uncorrectable)

	h.mono.Store(4 * hour)
	h.batch(sup, fecItem(4*hour, 20, 1))
	require.EqualValues(t, 4, h.gatherQuality().WhileActive)
}

func TestSymbolErrorsAreThoseOfInfiniBand(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	it := readingItem(1, 0, verbs.PortActive)
	it.Reading.Attr.LinkLayer = verbs.LinkInfiniBand
	h.batch(sup, it, fecItem(sec, 1, 1))
	q := h.gatherQuality()
	require.True(t, q.HasSymbolErrors)
	require.EqualValues(t, 7, q.SymbolErrors)
}
