package statusfile

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"time"

	"rdma_events/internal/agent/health"
)

// maxHistoryAge is how long after the last status of a plugin another one may continue with its history. After a longer time, it
// is not known whether a condition has held all the time.
const maxHistoryAge = 10 * time.Minute

// ReadHistory returns what plugins that ran in this directory before knew of the past (health.Keeper.History), for each device what the
// last one knew that watched it. It ignores plugins that still run, and what was written before the last boot. A file that cannot be read
// is left out: then a problem begins anew.
func ReadHistory(dir string) []health.AlertHistory {
	here, err := pidNamespace()
	if err != nil {
		return nil
	}
	boot, err := readBootID()
	if err != nil {
		return nil
	}
	entries, _ := os.ReadDir(dir) // as for one file
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
	judged := map[string]bool{} // devices, and "" for the host, that a later file is about
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
