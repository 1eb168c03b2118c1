package session

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/sessiontest"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/portstate"
	"rdma_events/internal/device/verbs"
)

// quietly is a backend whose port state changes without an event.
type quietly struct {
	verbs.Backend
	state *atomic.Int32 // 0: the simulator's; -1: the query fails
}

func (q quietly) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	d, err := q.Backend.Open(name, led)
	return quietDevice{d, q.state}, err
}

type quietDevice struct {
	verbs.Device
	state *atomic.Int32
}

func (d quietDevice) QueryPort(port int) (verbs.PortAttr, error) {
	a, err := d.Device.QueryPort(port)
	switch s := d.state.Load(); s {
	case 0:
	case -1:
		return verbs.PortAttr{}, errors.New("EAGAIN")
	default:
		a.State = verbs.PortState(s)
	}
	return a, err
}

// quiet returns a rig with such a backend, after the query at 5 s.
func quiet(t *testing.T) (*rig, *atomic.Int32) {
	t.Helper()
	r, state := newRig(t, "roce2", ""), new(atomic.Int32)
	r.Options.Probe.Interval = 0
	r.Wrap = func(b verbs.Backend) verbs.Backend { return quietly{b, state} }
	r.Start(nil)
	r.After(7 * time.Second)
	return r, state
}

func TestChangeWithoutAnEventIsConfirmedWithin100ms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, state := quiet(t)
		state.Store(int32(verbs.PortDown))
		require.Empty(t, sessiontest.Readings(r.After(2900*time.Millisecond)))
		require.Len(t, sessiontest.Readings(r.After(100*time.Millisecond+portstate.Settle)), 1, "the query of the interval")
		again := sessiontest.Readings(r.After(100*time.Millisecond - portstate.Settle))
		require.Len(t, again, 1)
		require.Equal(t, verbs.PortDown, again[0].Attr.State)
		require.Empty(t, sessiontest.Readings(r.After(4800*time.Millisecond)), "no more until the next interval")
	})
}

func TestAnswerThatVariesIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, state := quiet(t)
		state.Store(int32(verbs.PortInit))
		r.After(3*time.Second + confirm/2)
		state.Store(int32(verbs.PortArmed))
		require.Len(t, sessiontest.Readings(r.After(confirm)), 1)
		require.Len(t, sessiontest.Readings(r.After(confirm)), 1, "armed is confirmed as well")
		require.Empty(t, sessiontest.Readings(r.After(4*time.Second)))
	})
}

func TestQueryThatFailsIsNoDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, state := quiet(t)
		state.Store(-1)
		require.Len(t, sessiontest.Readings(r.After(4*time.Second)), 1)
	})
}

// slowing is a backend whose port can carry less from some time on.
type slowing struct {
	verbs.Backend
	gbps  *atomic.Int64
	state *atomic.Int32
}

func (b slowing) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	d, err := quietly{b.Backend, b.state}.Open(name, led)
	return slowingDevice{d, b.gbps}, err
}

type slowingDevice struct {
	verbs.Device
	gbps *atomic.Int64
}

func (d slowingDevice) QueryPort(port int) (verbs.PortAttr, error) {
	a, err := d.Device.QueryPort(port)
	a.EffectiveGbps = float64(d.gbps.Load())
	return a, err
}

func TestSpeedChangeQueriesTheRateOfEachPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, gbps, state := newRig(t, "dual", "[[event]]\ntype = \"device_speed_change\"\nat = \"7s\"\n"), new(atomic.Int64), new(atomic.Int32)
		gbps.Store(200)
		r.Options.Probe.Interval = 0
		r.Wrap = func(b verbs.Backend) verbs.Backend { return slowing{b, gbps, state} }
		r.Start(nil)
		r.After(6 * time.Second)
		gbps.Store(100)
		state.Store(int32(verbs.PortDown)) // the event of the link may come up to a second later
		after := sessiontest.Readings(r.After(time.Second + 10*settle))
		require.Len(t, after, 4, "soon, and once the change has settled")
		for i, got := range after {
			require.True(t, got.RateOnly)
			require.Equal(t, 1+i%2, got.Port)
			require.InDelta(t, 100, got.Attr.EffectiveGbps, 0)
		}
	})
}

// The host needs one reading portstate.Patience after an event: the driver's counter of lost links may then be ahead of the events
// for good. All that follow with the same answer tell it nothing.
func TestAReadingIsSentUntilItHasLasted(t *testing.T) {
	p := &askedPort{number: 1}
	at := func(d time.Duration, change func(*verbs.Reading)) bool {
		r := &verbs.Reading{Port: 1, Mono: int64(time.Hour + d), Attr: verbs.PortAttr{State: verbs.PortActive, LinkDowned: 500, HasLinkDowned: true}}
		if change != nil {
			change(r)
		}
		return !p.isRepeated(r)
	}
	require.True(t, at(0, nil), "soon after the event")
	require.True(t, at(100*time.Millisecond, nil), "when the events have settled")
	require.True(t, at(4*time.Second, nil), "the first that confirms them")
	require.False(t, at(9*time.Second, nil))
	require.False(t, at(14*time.Second, nil))
	p.events.Add(1)
	require.True(t, at(15*time.Second, nil), "after another event")
	require.True(t, at(20*time.Second, nil))
	require.False(t, at(25*time.Second, nil))
	require.True(t, at(26*time.Second, func(r *verbs.Reading) { r.Attr.State = verbs.PortDown }), "another answer")
	require.True(t, at(27*time.Second, func(r *verbs.Reading) { r.Err = "connection timed out" }))
	require.True(t, at(28*time.Second, nil), "the first answer after an error")
	require.True(t, at(33*time.Second, nil))
	require.False(t, at(38*time.Second, nil))
	require.True(t, at(43*time.Second, func(r *verbs.Reading) { r.Took = int64(time.Second) }), "the device had not answered for a while")
}
