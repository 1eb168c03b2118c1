package statusfile

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"time"

	"rdma_events/internal/agent/health"
	"rdma_events/internal/sys/clock"
)

// maxHistoryAge is the maximum age of a history that is used. If no plugin ran for longer, the condition of a problem may have
// ended in between.
const maxHistoryAge = 10 * time.Minute

// ReadHistory returns the history (health.Keeper.History) that earlier plugins left in a directory: for each device, that of the last
// plugin that watched it. It ignores plugins that are still running, and files from before the last boot. Whether a plugin in another PID
// namespace is still running is unknown, so its history counts. A file that cannot be read is ignored, and its problems begin anew.
func ReadHistory(dir string) []health.AlertHistory {
	here, err := pidNamespace()
	if err != nil {
		return nil
	}
	boot, err := clock.BootID()
	if err != nil {
		return nil
	}
	entries, _ := os.ReadDir(dir) // without the directory there is no history
	var before []*fileContent
	for _, e := range entries {
		if filepath.Ext(e.Name()) != suffix {
			continue
		}
		r, err := readFile(filepath.Join(dir, e.Name()))
		if err != nil || r.Process.BootID != boot || ageOf(&r.Process) > maxHistoryAge {
			continue
		}
		if r.Process.Namespace == here && !r.Process.hasEnded(here) {
			continue
		}
		before = append(before, r)
	}
	slices.SortFunc(before, func(a, b *fileContent) int { return cmp.Compare(b.Process.WrittenNS, a.Process.WrittenNS) })
	var all []health.AlertHistory
	judged := map[string]bool{} // devices, and "" for the host, that a newer file is about
	for _, r := range before {
		for _, h := range r.History {
			if !judged[h.Series.Device] {
				all = append(all, h)
			}
		}
		judged[""] = true
		for _, d := range r.Devices {
			judged[d.Device] = true
		}
	}
	return all
}
