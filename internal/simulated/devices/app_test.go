package devices

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

var everyKind = []verbs.ObjectKind{verbs.ObjectContext, verbs.ObjectPD, verbs.ObjectCQ, verbs.ObjectSRQ, verbs.ObjectQP}

func TestApplicationsHoldObjectsForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", `
[[app]]
at = "10s"
every = "60s"
for = "20s"
device = "sim0"
name = "python3"
unit = "job_7"
processes = 2
qps = 3
srqs = 1
state = "error"
[[app]]
device = "sim1"
name = "elsewhere"
`)
		holders := func(kinds ...verbs.ObjectKind) []verbs.Holder {
			o, err := s.dev.ListObjects(kinds...)
			require.NoError(t, err)
			require.True(t, o.Holders[0].Kernel)
			for kind, l := range o.Lists {
				require.Equal(t, l.State == verbs.ListComplete, len(kinds) > kind)
			}
			return o.Holders[1:]
		}
		require.Empty(t, holders(everyKind...))
		time.Sleep(15 * time.Second)
		first := holders(everyKind...)
		require.Len(t, first, 2)
		for i, h := range first {
			require.Equal(t, [verbs.ObjectKinds]uint32{1, 1, 2, 1, 3}, h.Counts)
			require.Equal(t, [verbs.QPStates]uint32{6: 3}, h.States)
			p, ok := s.w.Process(h.Thread, s.w.clock())
			require.True(t, ok)
			require.Equal(t, "python3", p.Name)
			require.Equal(t, "job_7", p.Unit)
			require.NotEqual(t, first[1-i].Thread, h.Thread)
		}
		require.Equal(t, [verbs.ObjectKinds]uint32{1, 1, 2}, holders(everyKind[:3]...)[0].Counts)
		was, _ := s.w.Process(first[0].Thread, s.w.clock())
		time.Sleep(20 * time.Second)
		require.Empty(t, holders(everyKind...))
		_, ok := s.w.Process(first[0].Thread, s.w.clock())
		require.False(t, ok)
		time.Sleep(40 * time.Second)
		again, ok := s.w.Process(holders(everyKind...)[0].Thread, s.w.clock())
		require.True(t, ok)
		require.Equal(t, was.Start+int64(time.Minute), again.Start, "another process")
	})
}
