package portstate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func FuzzCountersKeepTheirInvariants(f *testing.F) {
	f.Add([]byte{0, 0, 1, 4, 3, 10, 2, 10, 3, 20, 1, 0, 1, 5})
	f.Add([]byte{0, 0, 1, 4, 1, 0, 1, 1, 1, 200, 1, 201, 4, 9, 0, 0, 1, 68})
	f.Add([]byte{3, 3, 2, 2, 1, 1, 0, 0, 4, 4, 1, 132, 1, 4})
	f.Fuzz(func(t *testing.T, in []byte) {
		var m Machine
		var now, first, events int64
		var before View
		for ; len(in) >= 2; in = in[2:] {
			op, arg := in[0], int64(in[1])
			now += arg * ms
			if !before.Known {
				first = now - arg*ms/3
			}
			c, changed := feedInput(&m, op, arg, now, &events)
			v := m.View(now)
			requireSteady(t, before, v)
			require.LessOrEqual(t, v.Down, now-first)
			require.LessOrEqual(t, 2*v.Flaps, v.Transitions)
			require.LessOrEqual(t, v.Phantoms+v.Late+v.Early, uint64(events))
			require.Equal(t, changed, v.Transitions == before.Transitions+1)
			if changed {
				require.Equal(t, before.State, c.From)
				require.Equal(t, v.State, c.To)
				require.NotEqual(t, c.From, c.To)
				require.GreaterOrEqual(t, c.At, before.Since)
				require.Equal(t, before.HasSince, c.HasLasted)
				require.GreaterOrEqual(t, c.Lasted, int64(0))
				require.LessOrEqual(t, c.Lasted, now)
			}
			before = v
		}
	})
}

func requireSteady(t *testing.T, a, b View) {
	t.Helper()
	require.LessOrEqual(t, a.Transitions, b.Transitions)
	require.LessOrEqual(t, b.Transitions, a.Transitions+1)
	require.LessOrEqual(t, a.Flaps, b.Flaps)
	require.LessOrEqual(t, a.Missed, b.Missed)
	require.LessOrEqual(t, a.Phantoms, b.Phantoms)
	require.LessOrEqual(t, a.Late, b.Late)
	require.LessOrEqual(t, a.Early, b.Early)
	require.LessOrEqual(t, a.Down, b.Down)
	require.GreaterOrEqual(t, b.Down, int64(0))
	if a.Transitions == b.Transitions && a.Known {
		require.Equal(t, a.State, b.State)
	}
}

// stateMachine is implemented by Machine and by its model.
type stateMachine interface {
	HandleOpened()
	HandleRemoved(now int64) (Change, bool)
	HandleEvents(r *verbs.Run) (Change, bool)
	HandleReading(mono int64, a *verbs.PortAttr) (Change, bool)
}

func feedInput(m stateMachine, op byte, arg, now int64, events *int64) (Change, bool) {
	typ := verbs.EventPortErr
	switch op % 5 {
	case 0:
		m.HandleOpened()
	case 1:
		// A reading may be older than the input before it.
		a := verbs.PortAttr{State: verbs.PortState(arg % 6), LinkDowned: uint64(op), HasLinkDowned: op > 100}
		return m.HandleReading(now-arg*ms/3, &a)
	case 2:
		typ = verbs.EventPortActive
		fallthrough
	case 3:
		n := int64(op>>4) + 1
		*events += n
		return m.HandleEvents(&verbs.Run{Type: typ, Port: 1, Count: uint64(n), First: now - arg*ms/4, Last: now})
	case 4:
		return m.HandleRemoved(now)
	}
	return Change{}, false
}
