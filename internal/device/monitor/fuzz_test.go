package monitor

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/sys/status"
)

// overwriteLedger overwrites a ledger with bytes, from an offset on.
func overwriteLedger(led *ledger.Ledger, offset int, bytes []byte) {
	copy(unsafe.Slice((*byte)(led.Base()), ledger.Size)[offset:], bytes)
}

// countersByName returns all counters of the gathered points, by name.
func countersByName(s *gathered) map[string]uint64 {
	all := map[string]uint64{"events": s.Collector.AsyncEvents}
	for _, v := range s.Async {
		series := fmt.Sprint(v.Port, " ")
		all[series+"read"], all[series+"acked"], all[series+"released"] = v.Read, v.Acked, v.Released
		for _, e := range v.Types {
			all[series+e.Type.String()] = e.Total
		}
	}
	for _, v := range s.Probes {
		series := fmt.Sprint(v.Port, v.Vector, v.Method, " ")
		all[series+"rounds"], all[series+"events"], all[series+"acked"] = v.Counts.Rounds, v.Counts.Events, v.Counts.Acked
		all[series+"late"], all[series+"released"] = v.Counts.Late, v.Released
	}
	return all
}

func requireParity(t *testing.T, s *gathered) {
	t.Helper()
	for _, v := range s.Async {
		require.Equal(t, v.Read, v.Acked+v.Unacked+v.Released)
	}
	for _, v := range s.Probes {
		require.Equal(t, v.Counts.Events, v.Counts.Acked+v.Unacked+v.Released)
	}
}

// Three workers die one after the other, each after damage to its ledger.
func FuzzNoLedgerMakesACounterFall(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x01\x00\x00\x00"), []byte("\x0a\x00\x00\x00\x01\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00"), []byte{1})
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"), []byte("\x0a\x00\x00\x00\x01\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff"), []byte{})
	f.Add([]byte("\x00\x00\x00\x00\x01\x00\x00\x00"), []byte{},
		[]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"+
			"\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, inUse, events, probes []byte) {
		h := startMonitor(t, nil)
		h.reportFound(foundDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		before := map[string]uint64{}
		for range 3 {
			led := h.openDevice(sup, "mlx5_0")
			led.Count(10, 1, 3, 2)
			for _, damaged := range []bool{false, true} {
				if damaged {
					overwriteLedger(led, 8, inUse)
					overwriteLedger(led, 1024, events)
					overwriteLedger(led, 1024+ledger.EventSlots*24, probes)
				}
				h.mono.Add(int64(time.Second))
				s := h.gather()
				requireParity(t, &s)
				now := countersByName(&s)
				for name, n := range before {
					require.GreaterOrEqual(t, now[name], n, name)
				}
				before = now
			}
			sup.Ended(status.End{Reason: status.ReasonCrashed})
		}
	})
}
