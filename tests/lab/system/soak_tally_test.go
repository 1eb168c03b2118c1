//go:build guest

package system

import (
	"fmt"
	"strings"
	"testing"

	"rdma_events/tests/rig"
)

// tally is a summary of all points that Telegraf has written. A guest does not have
// enough memory for an hour of points.
type tally struct {
	newest   map[string]rig.Point // by series
	sums     map[string]int64     // of count, by series
	openedAt map[string]int64     // by device: unix ns of the last opening
	counters rig.Counters
}

func newTally() *tally {
	return &tally{newest: map[string]rig.Point{}, sums: map[string]int64{}, openedAt: map[string]int64{}, counters: rig.Counters{}}
}

func (s *tally) add(t *testing.T, p rig.Point) {
	t.Helper()
	s.counters.Look(t, p)
	if p.Measurement == "rdma_device" && p.Int("opens") > s.device(p.Tags["device"]).Int("opens") {
		s.openedAt[p.Tags["device"]] = p.Time
	}
	if p.Measurement == "rdma_async_event" {
		s.sums[p.Series()] += p.Int("count")
	}
	s.newest[p.Series()] = p
}

func (s *tally) device(name string) rig.Point { return s.newest["rdma_device,device="+name] }

func (s *tally) port(name string) rig.Point { return s.newest["rdma_port,device="+name+",port=1"] }

// counter returns how many of the injected events a device has counted.
func (s *tally) counter(name string) int64 {
	return s.newest["rdma_async,device="+name+",port=1"].Int("pkey_change")
}

// sum returns how many of the injected events were reported as points.
func (s *tally) sum(name string) int64 {
	return s.sums["rdma_async_event,device="+name+",event=pkey_change,port=1,scope=port"]
}

func (s *tally) String() string {
	var b strings.Builder
	for series, p := range s.newest {
		if p.Measurement == "rdma_device" || p.Measurement == "rdma_port" || p.Measurement == "rdma_async" {
			fmt.Fprintf(&b, "%s %v\n", series, p.Fields)
		}
	}
	for series, sum := range s.sums {
		fmt.Fprintf(&b, "%s: sum of count %d\n", series, sum)
	}
	return b.String()
}
