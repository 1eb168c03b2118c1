//go:build guest

package inguest

import (
	"fmt"
	"testing"
	"time"

	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/bench"
	"rdma_events/tests/lab/guest"
)

// TestGIDTable measures a reading of a port's GID table, as the worker does it after an
// event, beside the reading of the same table from sysfs.
func TestGIDTable(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	const addresses, readings = 200, 20
	for i := range addresses {
		guest.IP(t, "addr", "add", fmt.Sprintf("10.66.%d.1/24", i), "dev", netdev)
	}
	dev, _ := openDevice(t)
	defer closeDevice(t, dev)
	f := bench.Figure{
		Section: "GID table", Unit: "us", OtherIs: "the same table by sysfs", Bound: 1, Note: "the fastest of 20 readings a turn",
	}
	entries := 0
	read := func(from func() ([]verbs.GID, error)) float64 {
		least := time.Hour
		for range readings {
			began := time.Now()
			gids, err := from()
			if err != nil {
				t.Fatal(err)
			}
			least, entries = min(least, time.Since(began)), len(gids)
		}
		return float64(least.Nanoseconds()) / 1e3
	}
	fs := sysfs.New("/sys")
	for i := range turns {
		var ours, other float64
		inTurn(i, func() {
			ours = read(func() ([]verbs.GID, error) {
				table, err := dev.ReadGIDs(1)
				return table.Entries, err
			})
		}, func() {
			other = read(func() ([]verbs.GID, error) { return fs.GIDs(device, 1) })
		})
		f.Ours, f.Other = append(f.Ours, ours), append(f.Other, other)
	}
	f.What = fmt.Sprintf("a reading of %d GIDs", entries)
	addFigures(f)
}
