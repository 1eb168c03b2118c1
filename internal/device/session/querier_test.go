package session

import (
	"errors"
	"math/rand/v2"
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

// newQuietRig returns a rig with a quietly backend, after the query at 5 s.
func newQuietRig(t *testing.T) (*rig, *atomic.Int32) {
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
		r, state := newQuietRig(t)
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
		r, state := newQuietRig(t)
		state.Store(int32(verbs.PortInit))
		r.After(3*time.Second + confirmDelay/2)
		state.Store(int32(verbs.PortArmed))
		require.Len(t, sessiontest.Readings(r.After(confirmDelay)), 1)
		require.Len(t, sessiontest.Readings(r.After(confirmDelay)), 1, "armed is confirmed as well")
		require.Empty(t, sessiontest.Readings(r.After(4*time.Second)))
	})
}

func TestQueryThatFailsIsNoDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, state := newQuietRig(t)
		state.Store(-1)
		require.Len(t, sessiontest.Readings(r.After(4*time.Second)), 1)
	})
}

// slowing is a backend whose port loses some of its rate at some time.
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
		after := sessiontest.Readings(r.After(time.Second + 10*settleDelay))
		require.Len(t, after, 4, "soon, and once the change has settled")
		for i, got := range after {
			require.True(t, got.RateOnly)
			require.Equal(t, 1+i%2, got.Port)
			require.InDelta(t, 100, got.Attr.EffectiveGbps, 0)
		}
	})
}

func TestAReadingIsSentUntilItIsConfirmed(t *testing.T) {
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
	require.True(t, at(9*time.Second, nil), "the second")
	require.False(t, at(14*time.Second, nil))
	require.False(t, at(19*time.Second, nil))
	p.countStateEvent(verbs.EventPKeyChange)
	require.False(t, at(19100*time.Millisecond, nil), "after an event that says nothing about the state")
	p.countStateEvent(verbs.EventPortErr)
	require.True(t, at(20*time.Second, nil), "after one that does")
	require.True(t, at(25*time.Second, nil))
	require.True(t, at(30*time.Second, nil))
	require.False(t, at(35*time.Second, nil))
	require.True(t, at(36*time.Second, func(r *verbs.Reading) { r.Attr.State = verbs.PortDown }), "another answer")
	require.True(t, at(37*time.Second, func(r *verbs.Reading) { r.Err = "connection timed out" }))
	require.True(t, at(38*time.Second, nil), "the first answer after an error")
	require.True(t, at(43*time.Second, nil))
	require.True(t, at(48*time.Second, nil))
	require.False(t, at(53*time.Second, nil))
	require.True(t, at(58*time.Second, func(r *verbs.Reading) { r.Took = int64(time.Second) }), "the device had not answered for a while")
}

// While the host does not read, its outbox is full. It gets the state once it reads again, although the state stays the same.
func TestReadingThatTheHostDoesNotGetIsSentAgain(t *testing.T) {
	full := false
	var sent []verbs.PortState
	a := NewAsker(AskerConfig{
		Device: otherHangs{}, Clock: hostClock{}, OnStuck: func() {}, OnSnapshotDue: func() {}, OnRTNLFree: func() {},
		Send: func(i verbs.Item) bool {
			if !full {
				sent = append(sent, i.Reading.Attr.State)
			}
			return !full
		},
	})
	at := int64(time.Hour)
	query := func(state verbs.PortState, times int) {
		for range times {
			at += int64(5 * time.Second)
			a.ReportQuery(&verbs.Reading{Port: 1, Mono: at, Attr: verbs.PortAttr{State: state}}, nil)
		}
	}
	query(verbs.PortActive, 10)
	require.Equal(t, []verbs.PortState{verbs.PortActive, verbs.PortActive, verbs.PortActive}, sent)
	sent, full = nil, true
	query(verbs.PortDown, 10)
	full = false
	query(verbs.PortDown, 10)
	require.Equal(t, []verbs.PortState{verbs.PortDown, verbs.PortDown, verbs.PortDown}, sent, "and its confirmations")
}

// A host that gets only the readings that tell it something new must know as much as a host that gets all readings, whatever the
// port does: it goes down and up with its events, with two events swapped, or without events.
func TestReadingsThatAreLeftOutTellTheHostNothing(t *testing.T) {
	missed := 0
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		p := &askedPort{number: 1}
		var all, some portstate.Machine
		all.HandleOpened()
		some.HandleOpened()
		now, next, left := int64(time.Hour), int64(0), 0
		attr := verbs.PortAttr{State: verbs.PortActive, HasLinkDowned: true}
		read := func() {
			r := &verbs.Reading{Port: 1, Mono: now, Attr: attr}
			all.HandleReading(now, &attr)
			if p.isRepeated(r) {
				left++
			} else {
				some.HandleReading(now, &attr)
			}
		}
		event := func(typ verbs.EventType) {
			p.countStateEvent(typ)
			for _, m := range []*portstate.Machine{&all, &some} {
				m.HandleEvents(&verbs.Run{Type: typ, Port: 1, Count: 1, First: now, Last: now})
			}
		}
		pass := func(d time.Duration) {
			for now += int64(d); next <= now; next += int64(5 * time.Second) {
				next = max(next, now)
				read()
			}
		}
		read()
		for range random.IntN(60) {
			pass(time.Duration(random.IntN(400)) * time.Millisecond)
			if random.IntN(10) == 0 {
				pass(time.Duration(random.IntN(20)) * time.Second)
			}
			if random.IntN(5) == 0 {
				event([]verbs.EventType{verbs.EventPKeyChange, verbs.EventGIDChange, verbs.EventLIDChange, verbs.EventSMChange}[random.IntN(4)])
				continue
			}
			attr.LinkDowned++
			switch random.IntN(4) {
			case 0: // no event reports the drop
			case 1:
				event(verbs.EventPortActive)
				event(verbs.EventPortErr)
				event(verbs.EventPortActive)
			default:
				event(verbs.EventPortErr)
				pass(10 * time.Millisecond)
				event(verbs.EventPortActive)
			}
			if random.IntN(2) == 0 {
				pass(10 * time.Millisecond)
				read()
			}
		}
		for range 12 {
			pass(5 * time.Second)
		}
		require.Equal(t, all.View(now), some.View(now), "seed %d", seed)
		require.NotZero(t, left, "seed %d", seed)
		missed += int(all.View(now).Missed)
	}
	require.NotZero(t, missed)
}
