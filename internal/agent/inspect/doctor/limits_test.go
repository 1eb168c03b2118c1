package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestLockedMemoryIsCountedForEachVector(t *testing.T) {
	all := func(has int) int { return has }
	for name, row := range map[string]struct {
		vectors int // of the device
		probed  func(has int) int
		limit   uint64
		want    finding // Fix is only a part of the fix
	}{
		"one of many": {63, nil, 2 << 20, finding{Text: "the limit is 2 MiB; probes pin up to 64 KiB for one device"}},
		"all":         {63, all, 8 << 20, finding{Text: "the limit is 8 MiB; probes pin up to 3 MiB for one device"}},
		"all, too many for the limit": {63, all, 2 << 20, finding{
			Status: Fail, Text: "the limit is 2 MiB, but the probes of one hardware device pin up to 3 MiB", Fix: "LimitMEMLOCK=8M",
		}},
		"all, too many for the usual limit": {200, all, 8 << 20, finding{
			Status: Fail, Text: "the limit is 8 MiB, but the probes of one hardware device pin up to 12 MiB", Fix: "LimitMEMLOCK=13M",
		}},
		"no probes": {63, func(int) int { return 0 }, 48 << 10, finding{Text: "the limit is 48 KiB; no device here pins any"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := workingWorker()
			try := w.trials[verbs.MethodRCWrite]
			try.Attr.Vectors = row.vectors
			w.trials[verbs.MethodRCWrite] = try
			s := newHost(t, healthyTree(), w)
			s.Config, s.LockedMemory = "/etc/telegraf/telegraf.d/rdma_events.conf", row.limit
			s.Plugin = func(string) (PluginConfig, error) { return PluginConfig{Vectors: row.probed}, nil }
			r := Run(t.Context(), s)
			got := r.resultsOf("locked_memory")
			require.Len(t, got, 1)
			require.Equal(t, row.want.Status, got[0].Status)
			require.Equal(t, row.want.Text, got[0].Text)
			require.Contains(t, got[0].Fix.String(), row.want.Fix)
		})
	}
}
