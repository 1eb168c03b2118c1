package monitor

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// startWithOpenDevice starts a Monitor with one open device, and drops the points emitted so far.
func startWithOpenDevice(t *testing.T, change func(*Config)) (*harness, *fakeSupervisor, *ledger.Ledger) {
	t.Helper()
	h := startMonitor(t, change)
	h.reportFound(foundDevice("mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	led := h.openDevice(sup, "mlx5_0")
	h.sink.takePoints()
	return h, sup, led
}

func TestEventIsEmittedBeforeItsChangeAndPort(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, nil)
	h.mono.Store(100 * ms)
	led.Count(int32(verbs.EventPortErr), 1, 1, 1)
	led.Count(int32(verbs.EventDeviceFatal), 0, 1, 1)
	h.batch(sup, eventItem(verbs.EventPortErr, 1, 1, 90*ms, 90*ms), eventItem(verbs.EventDeviceFatal, 0, 1, 95*ms, 95*ms))
	at := time.Unix(0, epoch+90*ms)
	items := h.sink.takePoints()
	require.Len(t, items, 5)
	require.Equal(t, measure.Event{
		Device: "mlx5_0", Type: verbs.EventPortErr, Port: 1, Count: 1, Total: 1,
		At: at, First: at, HoldMax: 1000, AckMax: 100,
	}, items[0])
	require.Equal(t, measure.Change{
		Device: "mlx5_0", Port: 1, From: verbs.PortActive, To: verbs.PortDown, Witness: verbs.WitnessEvent,
		Transitions: 1, At: at,
	}, items[1])
	p := items[2].(measure.Port)
	require.Equal(t, verbs.PortDown, p.State)
	require.Equal(t, at, p.At)
	require.Equal(t, 10*ms, p.StateAgeNS)
	require.Equal(t, 10*ms, p.DownNS)
	require.Equal(t, verbs.EventDeviceFatal, items[3].(measure.Event).Type)
	require.EqualValues(t, 1, items[4].(measure.Device).Fatals)
}

func TestChangedPortIsEmittedAtOnce(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	h.mono.Store(100 * ms)
	h.batch(sup, readingItem(1, 99*ms, verbs.PortActive))
	require.Empty(t, h.sink.takePoints())
	slower := readingItem(1, 100*ms, verbs.PortActive)
	slower.Reading.Attr.RateGbps = 25
	slower.Reading.Attr.LinkDowned, slower.Reading.Attr.HasLinkDowned = 5, true
	h.batch(sup, slower)
	v := pointsOf[measure.Port](h.sink.takePoints())
	require.Len(t, v, 1)
	require.InDelta(t, 25.0, v[0].Attr.RateGbps, 0)
	slower.Reading.Attr.LinkDowned++
	h.batch(sup, slower)
	require.Empty(t, h.sink.takePoints(), "a counter alone is no change")
	h.batch(sup, verbs.Item{Reading: &verbs.Reading{Port: 1, Mono: 101 * ms, Err: "EIO"}})
	p := findPort(h.gather(), "mlx5_0", 1)
	require.False(t, p.Known)
	require.Equal(t, verbs.PortActive, p.State)
}

func TestRateOnlyReadingChangesTheRateAndNoState(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	at := func(mono int64, state verbs.PortState, effective float64) []any {
		h.mono.Store(mono)
		it := readingItem(1, mono, state)
		it.Reading.RateOnly, it.Reading.Attr.EffectiveGbps = state != verbs.PortActive || effective < 200, effective
		h.batch(sup, it)
		return h.sink.takePoints()
	}
	at(100*ms, verbs.PortActive, 200)
	points := at(200*ms, verbs.PortActive, 100)
	require.Equal(t, []measure.AttrChange{{
		Device: "mlx5_0", Port: 1, Attr: "rate_effective", From: "200", To: "100", Changes: 1, At: time.Unix(0, epoch+200*ms),
	}}, pointsOf[measure.AttrChange](points))
	require.InDelta(t, 100, pointsOf[measure.Port](points)[0].Attr.EffectiveGbps, 0)
	for _, mono := range []int64{300 * ms, 400 * ms, 500 * ms} { // each would confirm the one before
		require.Empty(t, pointsOf[measure.Change](at(mono, verbs.PortDown, 0)))
	}
	require.Equal(t, verbs.PortActive, findPort(h.gather(), "mlx5_0", 1).State)
}

func TestAReplacedWorkerFindsAChange(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	h.mono.Store(100 * ms)
	sup.Ended(status.End{Reason: status.ReasonCrashed})
	v := pointsOf[measure.Device](h.sink.takePoints())
	require.Len(t, v, 1)
	require.Equal(t, status.ReasonCrashed, v[0].Reason)
	require.False(t, v[0].Open)
	require.True(t, v[0].Present)
	require.False(t, findPort(h.gather(), "mlx5_0", 1).Known)
	sup.Status(status.Status{State: status.StateBackingOff, Reason: status.ReasonCrashed, Restarts: 1})
	h.mono.Store(600 * ms)
	sup.Started(h.ledger(), nil)
	h.batch(sup, openedItem("mlx5_0", 2), readingItem(1, 600*ms, verbs.PortDown), readingItem(2, 600*ms, verbs.PortActive))
	c := pointsOf[measure.Change](h.sink.takePoints())
	require.Len(t, c, 1)
	require.Equal(t, verbs.WitnessReopen, c[0].Witness)
	s := h.gather()
	require.EqualValues(t, 2, findDevice(s, "mlx5_0").Opens)
	require.Equal(t, status.ReasonOK, findDevice(s, "mlx5_0").Reason)
	require.EqualValues(t, 1, s.Collector.WorkerRestarts)
}

func TestUnstreamedEventsOfDeadWorkerAreEmitted(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, nil)
	led.Count(int32(verbs.EventPortErr), 1, 5, 4)
	led.Count(int32(verbs.EventCQErr), 0, 2, 2)
	h.batch(sup, eventItem(verbs.EventPortErr, 1, 3, 0, 0))
	v := findAsync(h.gather(), "mlx5_0", 1)
	require.EqualValues(t, 5, findCount(v, verbs.EventPortErr).Total)
	require.Equal(t, []uint64{5, 4, 1, 0}, []uint64{v.Read, v.Acked, v.Unacked, v.Released})
	h.sink.takePoints()

	h.mono.Store(50 * ms)
	sup.Ended(status.End{Reason: status.ReasonCrashed})
	at := time.Unix(0, epoch+50*ms)
	require.Equal(t, []measure.Event{
		{Device: "mlx5_0", Type: verbs.EventCQErr, Count: 2, Total: 2, At: at, First: at},
		{Device: "mlx5_0", Type: verbs.EventPortErr, Port: 1, Count: 2, Total: 5, At: at, First: at},
	}, pointsOf[measure.Event](h.sink.takePoints()))
	v = findAsync(h.gather(), "mlx5_0", 1)
	require.Equal(t, []uint64{5, 4, 0, 1}, []uint64{v.Read, v.Acked, v.Unacked, v.Released})

	led = h.ledger()
	sup.Started(led, nil)
	led.Count(int32(verbs.EventPortErr), 1, 1, 1)
	h.batch(sup, eventItem(verbs.EventPortErr, 1, 1, 0, 0))
	require.EqualValues(t, 6, pointsOf[measure.Event](h.sink.takePoints())[0].Total)
	require.EqualValues(t, 6, findAsync(h.gather(), "mlx5_0", 1).Read)
}

func TestCountersDoNotGoBackWhenADyingWorkerSpoilsItsLedger(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, nil)
	led.Count(int32(verbs.EventPortErr), 1, 5, 5)
	i, err := led.AddProbe(1, 0, int(verbs.MethodRCWrite))
	require.NoError(t, err)
	led.AddProbeCounts(i, ledger.ProbeCounts{Rounds: 9, Successes: 9, Events: 9, Acked: 9})
	h.gather()
	led.Count(int32(verbs.EventPortErr), 1, ^uint64(2), ^uint64(2))
	led.AddProbeCounts(i, ledger.ProbeCounts{Rounds: ^uint64(2), Events: ^uint64(2), Acked: ^uint64(2)})
	s := h.gather()
	require.EqualValues(t, 5, findAsync(s, "mlx5_0", 1).Read)
	require.EqualValues(t, 9, s.Probes[0].Counts.Rounds)
	sup.Ended(status.End{Reason: status.ReasonCrashed})
	s = h.gather()
	require.EqualValues(t, 5, findAsync(s, "mlx5_0", 1).Read)
	require.EqualValues(t, 9, s.Probes[0].Counts.Events)
}

func TestRatesAreOverTheInterval(t *testing.T) {
	h, _, led := startWithOpenDevice(t, nil)
	h.mono.Store(10 * sec)
	h.gather()
	led.Count(int32(verbs.EventPortErr), 1, 5, 5)
	h.mono.Store(20 * sec)
	require.InDelta(t, 0.5, findCount(findAsync(h.gather(), "mlx5_0", 1), verbs.EventPortErr).Rate, 1e-9)
	h.mono.Store(30 * sec)
	require.Zero(t, findCount(findAsync(h.gather(), "mlx5_0", 1), verbs.EventPortErr).Rate)
}

func TestHoldAndAckAreOfTheInterval(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	h.batch(sup, eventItem(verbs.EventGIDChange, 1, 4, 0, 0))
	v := findAsync(h.gather(), "mlx5_0", 1)
	require.Equal(t, aggregate.Stat{Count: 4, Mean: 900, Max: 1000}, v.Hold)
	require.Equal(t, aggregate.Stat{Count: 4, Mean: 90, Max: 100}, v.Ack)
	require.Zero(t, findAsync(h.gather(), "mlx5_0", 1).Hold)
}

func TestUnknownTypesAreCountedOnceSeenAndBounded(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, nil)
	for n := range int32(100) {
		led.Count(1000+n, 0, 1, 1)
		h.batch(sup, eventItem(verbs.EventType(1000+n), 0, 1, 0, 0))
	}
	v := findAsync(h.gather(), "mlx5_0", 0)
	require.Len(t, v.Types, maxTypes+1)
	require.EqualValues(t, 1, findCount(v, 1000).Total)
	require.EqualValues(t, 50, findCount(v, verbs.EventType(ledger.Overflow)).Total)
	require.EqualValues(t, 100, v.Read)
	points := pointsOf[measure.Event](h.sink.takePoints())
	require.EqualValues(t, 50, points[99].Total)
	sup.Ended(status.End{Reason: status.ReasonCrashed})
	require.Empty(t, pointsOf[measure.Event](h.sink.takePoints()))
}

func TestPortsThatAreNotWantedAreNotCounted(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, func(c *Config) {
		c.Ports = func(_ string, port, _ int) bool { return port == 2 }
		c.ExpectedDown = func(device string, port int) bool { return device == "mlx5_0" && port == 2 }
	})
	led.Count(int32(verbs.EventPortErr), 1, 5, 5)
	h.batch(sup, eventItem(verbs.EventPortErr, 1, 5, 0, 0), eventItem(verbs.EventPortErr, 999, 5, 0, 0))
	s := h.gather()
	require.Len(t, s.Async, 2)
	require.Zero(t, s.Collector.AsyncEvents)
	require.Len(t, s.Ports, 1)
	require.True(t, s.Ports[0].Expected)
}

func TestAProbeIsCountedFromItsLedgerAndMeasuredFromItsRounds(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, func(c *Config) { c.Histogram, c.Stages = true, true })
	h.batch(sup, verbs.Item{Probe: &verbs.ProbeItem{ProbeKey: verbs.ProbeKey{Port: 1, Vector: 0, Method: verbs.MethodRCWrite}}})
	s := h.gather()
	require.Len(t, s.Probes, 1)
	require.False(t, s.Probes[0].HasOK)
	i, err := led.AddProbe(1, 0, int(verbs.MethodRCWrite))
	require.NoError(t, err)
	led.AddProbeCounts(i, ledger.ProbeCounts{Rounds: 3, Successes: 2, Errors: 1, Events: 3, Acked: 2})
	round := func(r verbs.Round) verbs.Item {
		return verbs.Item{Round: &verbs.RoundItem{ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodRCWrite}, Round: r}}
	}
	h.mono.Store(10 * sec)
	h.batch(sup,
		round(verbs.Round{Outcome: verbs.OutcomeSuccess, Start: 1, Wake: 40_000, Hold: 700, Ack: 300, Total: 50_000, Get: 5, Arm: 6, Drain: 7}),
		round(verbs.Round{Outcome: verbs.OutcomeError, Status: "retry exceeded", Wake: 20_000}),
		round(verbs.Round{Outcome: verbs.OutcomeCanceled}))
	s = h.gather()
	v := s.Probes[0]
	require.Equal(t, ledger.ProbeCounts{Rounds: 3, Successes: 2, Errors: 1, Events: 3, Acked: 2}, v.Counts)
	require.Equal(t, []uint64{1, 0}, []uint64{v.Unacked, v.Released})
	require.InDelta(t, 0.3, v.EventsRate, 1e-9)
	require.True(t, v.HasOK)
	require.False(t, v.OK)
	require.Equal(t, "retry exceeded", v.Status)
	require.Equal(t, aggregate.Stat{Count: 2, Mean: 30_000, Max: 40_000}, v.Wake)
	require.Equal(t, aggregate.Stat{Count: 1, Mean: 300, Max: 300}, v.Ack)
	require.Equal(t, aggregate.Percentiles{Count: 2, P50: 20_000, P90: 40_000, P99: 40_000}, v.WakeP)
	require.Equal(t, aggregate.Percentiles{Count: 1, P50: 7, P90: 7, P99: 7}, v.DrainP)
	require.EqualValues(t, 1, s.Histograms[0].Below[2])
	require.EqualValues(t, 2, s.Histograms[0].Below[16])

	sup.Ended(status.End{Reason: status.ReasonStuck})
	v = h.gather().Probes[0]
	require.Equal(t, []uint64{3, 2, 0, 1}, []uint64{v.Counts.Events, v.Counts.Acked, v.Unacked, v.Released})
	require.Zero(t, v.Wake.Count)
	require.EqualValues(t, 2, v.WakeP.Count)

	led = h.ledger()
	sup.Started(led, nil)
	i, err = led.AddProbe(1, 0, int(verbs.MethodRCWrite))
	require.NoError(t, err)
	led.AddProbeCounts(i, ledger.ProbeCounts{Rounds: 1, Successes: 1, Events: 1, Acked: 1})
	h.batch(sup, round(verbs.Round{Outcome: verbs.OutcomeSuccess, Wake: 10}))
	v = h.gather().Probes[0]
	require.Equal(t, v.Counts.Events, v.Counts.Acked+v.Unacked+v.Released)
	require.True(t, v.OK)
	require.Equal(t, "retry exceeded", v.Status)
}

// A method that was tried and not kept has a slot in the ledger but no rounds.
func TestTriedMethodMakesNoSeries(t *testing.T) {
	h, _, led := startWithOpenDevice(t, nil)
	i, err := led.AddProbe(1, 0, int(verbs.MethodRCWrite))
	require.NoError(t, err)
	require.Empty(t, h.gather().Probes)
	led.AddProbeCounts(i, ledger.ProbeCounts{Events: 1, Acked: 1})
	require.Empty(t, h.gather().Probes)
	led.AddProbeCounts(i, ledger.ProbeCounts{Events: 1})
	require.Len(t, h.gather().Probes, 1, "an acknowledgement that hangs is seen")
	led.AddProbeCounts(i, ledger.ProbeCounts{Rounds: 1, Successes: 1, Acked: 1})
	require.Len(t, h.gather().Probes, 1)
}

func TestProbesAreInOrderAndWithoutExtrasUnlessAskedFor(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	for _, k := range []verbs.ProbeKey{
		{Port: 2, Method: verbs.MethodFlush}, {Port: 1, Vector: 1, Method: verbs.MethodRCWrite},
		{Port: 1, Method: verbs.MethodRCWrite}, {Port: 1, Method: verbs.MethodUDSend},
	} {
		h.batch(sup,
			verbs.Item{Probe: &verbs.ProbeItem{ProbeKey: k}},
			verbs.Item{Probe: &verbs.ProbeItem{ProbeKey: verbs.ProbeKey{Port: k.Port, Vector: k.Vector, Method: verbs.MethodNone}, Reason: "port down"}})
	}
	s := h.gather()
	require.Empty(t, s.Histograms)
	var got []verbs.ProbeKey
	for _, v := range s.Probes {
		got = append(got, v.ProbeKey)
	}
	require.Equal(t, []verbs.ProbeKey{
		{Port: 1, Method: verbs.MethodRCWrite}, {Port: 1, Method: verbs.MethodUDSend},
		{Port: 1, Vector: 1, Method: verbs.MethodRCWrite}, {Port: 2, Method: verbs.MethodFlush},
	}, got)
}

func TestTheFirstChoiceOfAProbesMethodIsLogged(t *testing.T) {
	var log bytes.Buffer
	h, sup, _ := startWithOpenDevice(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	choice := func(port int, m verbs.Method, reason string) {
		log.Reset()
		h.batch(sup, verbs.Item{Probe: &verbs.ProbeItem{ProbeKey: verbs.ProbeKey{Port: port, Method: m}, Reason: reason}})
	}
	choice(1, verbs.MethodFlush, "rc_write cannot be")
	require.Contains(t, log.String(), `level=INFO msg="probe method chosen" device=mlx5_0 port=1 vector=0 method=flush reason="rc_write cannot be"`)
	choice(1, verbs.MethodRCWrite, "as preferred")
	require.Empty(t, log.String(), "later choices are logged at debug level only")
	choice(2, verbs.MethodNone, "it cannot be")
	require.Contains(t, log.String(), `level=WARN msg="probe unavailable" device=mlx5_0 port=2 error="it cannot be"`)
}

func TestDeliveryIsFromTheReadToTheHandOver(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	h.mono.Store(100 * ms)
	h.batch(sup, eventItem(verbs.EventGIDChange, 1, 2, 90*ms, 99*ms))
	require.Equal(t, aggregate.Percentiles{Count: 1, P50: 10 * ms, P90: 10 * ms, P99: 10 * ms}, h.gather().Collector.DeliveryP)
}

func TestPointsOfASeriesRiseByOneNanosecondAtLeast(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	h.mono.Store(100 * ms)
	h.batch(sup, eventItem(verbs.EventGIDChange, 1, 1, 90*ms, 90*ms), eventItem(verbs.EventLIDChange, 1, 1, 90*ms, 90*ms),
		eventItem(verbs.EventGIDChange, 1, 1, 90*ms, 90*ms), eventItem(verbs.EventGIDChange, 2, 1, 90*ms, 90*ms))
	var got []int64
	for _, p := range pointsOf[measure.Event](h.sink.takePoints()) {
		got = append(got, p.At.UnixNano()-epoch-90*ms)
	}
	require.Equal(t, []int64{0, 0, 1, 0}, got)
}

func TestAWallClockSetBackIsFollowed(t *testing.T) {
	var log bytes.Buffer
	h, sup, _ := startWithOpenDevice(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	times := func(at int64) (event, port time.Time) {
		h.mono.Store(at)
		wall, _, _ := h.now()
		h.batch(sup, gidChangeItem(at))
		return pointsOf[measure.Event](h.sink.takePoints())[0].At, findPort(sortPoints(h.Gather(time.Unix(0, wall))), "mlx5_0", 1).At
	}
	e, p := times(10 * sec)
	require.Equal(t, time.Unix(0, epoch+10*sec), e)
	require.Equal(t, e, p)

	h.wallShift.Store(-500 * ms)
	e, p = times(10*sec + 100*ms)
	require.Equal(t, time.Unix(0, epoch+10*sec+1), e, "a small step is waited out")
	require.Equal(t, e, p)
	require.Empty(t, log.String())

	h.wallShift.Store(-3600 * sec)
	e, p = times(11 * sec)
	require.Equal(t, time.Unix(0, epoch+11*sec-3600*sec), e)
	require.Equal(t, e, p)
	require.Contains(t, log.String(), "wall clock set back")

	sup.Batch(verbs.Batch{Wall: epoch + 10*sec, Mono: 10 * sec, Items: []verbs.Item{gidChangeItem(10 * sec)}}, sup.readStatus())
	require.Equal(t, time.Unix(0, epoch+11*sec-3600*sec+1), pointsOf[measure.Event](h.sink.takePoints())[0].At,
		"a batch stamped before the step gets the new time")
	e, _ = times(12 * sec)
	require.Equal(t, time.Unix(0, epoch+12*sec-3600*sec), e)
}

func gidChangeItem(at int64) verbs.Item { return eventItem(verbs.EventGIDChange, 1, 1, at, at) }

func TestABatchFromTheFutureDoesNotMoveTheClock(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	h.mono.Store(sec)
	sup.Batch(verbs.Batch{Wall: 5, Mono: 1e18}, sup.readStatus())
	h.mono.Store(2 * sec)
	h.batch(sup, gidChangeItem(2*sec))
	require.Equal(t, time.Unix(0, epoch+2*sec), pointsOf[measure.Event](h.sink.takePoints())[0].At)
}

func TestReasonsComeFromTheWorker(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(foundDevice("mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	sup.Started(h.ledger(), nil)
	sup.Ended(status.End{Reason: status.ReasonNoPermission})
	require.Equal(t, status.ReasonNoPermission, findDevice(h.gather(), "mlx5_0").Reason)
	sup.Status(status.Status{State: status.StateBackingOff, Reason: status.ReasonNoPermission})
	sup.Status(status.Status{State: status.StateStuck, Reason: status.ReasonStuck, PID: 7})
	s := h.gather()
	require.Equal(t, status.ReasonStuck, findDevice(s, "mlx5_0").Reason)
	require.Equal(t, 1, s.Collector.WorkersStuck)
	h.openDevice(sup, "mlx5_0")
	require.Equal(t, status.ReasonOK, findDevice(h.gather(), "mlx5_0").Reason)
}

func TestAWorkerWithoutAnswersLeavesTheStateUnknown(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(foundDevice("mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	sup.Started(h.ledger(), nil)
	h.batch(sup, openedItem("mlx5_0", 1), verbs.Item{Reading: &verbs.Reading{Port: 1, Err: "EIO"}}, eventItem(verbs.EventPortErr, 1, 1, 0, 0))
	p := findPort(h.gather(), "mlx5_0", 1)
	require.False(t, p.Known)
	require.False(t, p.HasState)
	require.Zero(t, p.Transitions)
}
