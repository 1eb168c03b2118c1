package tracetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
)

// hangAfter is the time after which a thread counts as hanging in the cases about hangs.
const hangAfter = 3 * time.Second

func hangCases() []testCase {
	needs := []Capability{Hanging}
	return []testCase{
		{"a destroy without acknowledgements hangs until they come", needs, missingAckHangs},
		{"acknowledgements that come in time are no hang", needs, inTime},
		{"a hang ends with its process", needs, endsWithProcess},
		{"a destroy with all acknowledgements is no hang", nil, acknowledgedNeverHangs},
	}
}

func missingAckHangs(s *scene) {
	w, p := s.watch(hangAfter), s.start()
	number := p.Cause(s, s.typ, 2)
	p.Hold(s)
	w.until("two events are read", p, hasRead(2))
	began := s.Now()
	p.Destroy(s, s.typ)
	done := s.Now()
	h := w.untilHang()
	require.GreaterOrEqual(s, w.last.Mono-h.Since, int64(hangAfter), "not earlier")
	require.GreaterOrEqual(s, h.Since, began)
	require.LessOrEqual(s, h.Since, done)
	a := w.lastReport(p)
	require.EqualValues(s, 1, a.DestroyedUnacked)
	require.Equal(s, trace.Hang{
		Device: s.Device(), Process: a.Process, Thread: h.Thread, Object: s.typ.Scope(), Number: number,
		Since: h.Since, Missing: 2, Proof: trace.ProofAsleep,
	}, h)
	require.Equal(s, []trace.Hang{h}, w.next().Hangs, "each time while it lasts")

	p.Acknowledge(s)
	w.untilOver(h)
	require.Empty(s, w.next().Hangs, "it does not come back")
	require.False(s, w.lastReport(p).Ended)
}

func inTime(s *scene) {
	w, p := s.watch(hangAfter), s.start()
	p.Cause(s, s.typ, 1)
	p.Hold(s)
	p.Destroy(s, s.typ)
	p.Acknowledge(s)
	w.noHang(s.Now() + 2*int64(hangAfter))
	require.EqualValues(s, 1, w.lastReport(p).Read)
	require.EqualValues(s, 1, w.lastReport(p).DestroyedUnacked)
}

func endsWithProcess(s *scene) {
	w, p := s.watch(hangAfter), s.start()
	p.Cause(s, s.typ, 1)
	p.Hold(s)
	p.Destroy(s, s.typ)
	h := w.untilHang()
	p.Exit(s)
	w.untilOver(h)
	require.True(s, w.lastReport(p).Ended, "the process went in the same second")
	require.Empty(s, w.next().Hangs)
}

func acknowledgedNeverHangs(s *scene) {
	w, p := s.watch(hangAfter), s.start()
	p.Cause(s, s.typ, 1)
	p.Read(s, 0)
	p.Destroy(s, s.typ)
	w.noHang(s.Now() + 2*int64(hangAfter))
	require.Zero(s, w.lastReport(p).DestroyedUnacked)
}
