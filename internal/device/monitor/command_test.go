package monitor

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

const second = int64(time.Second)

func asking(c *Config) { c.CommandStuck = 5 * time.Second }

func ended(call verbs.CommandCall, took int64, errno string) verbs.Item {
	return verbs.Item{Command: &verbs.Command{Call: call, Port: 1, Took: took, Status: errno}}
}

func TestCommandsAreCountedByCall(t *testing.T) {
	h, sup, _ := one(t, asking)
	require.Empty(t, h.gather().Commands, "no call, no series")
	h.mono.Store(second)
	h.batch(sup, ended(verbs.CommandHWCounters, 40_000, ""), ended(verbs.CommandHWCounters, 80_000, ""),
		ended(verbs.CommandQueryPort, 10_000, "EBUSY"))
	require.Empty(t, of[measure.Command](h.sink.take()), "nothing is stuck")
	s := h.gather()
	require.Len(t, s.Commands, 2)
	c := s.Commands[0]
	require.Equal(t, verbs.CommandHWCounters, c.Call)
	require.EqualValues(t, []uint64{2, 0}, []uint64{c.Calls, c.Errors})
	require.Equal(t, measure.CommandOK, c.Status)
	require.EqualValues(t, 80_000, c.Took.Max)
	require.EqualValues(t, 2, c.TookP.Count)
	q := s.Commands[1]
	require.Equal(t, verbs.CommandQueryPort, q.Call)
	require.EqualValues(t, []uint64{1, 1}, []uint64{q.Calls, q.Errors})
	require.Equal(t, "EBUSY", q.Status)
	require.Zero(t, s.Hosts[0].Stuck)
	require.Zero(t, h.gather().Commands[0].Took.Count, "another interval")
}

// The worker is in the call, so that only the ledger has it.
func TestACallThatLastsIsStuckUntilOneSucceeds(t *testing.T) {
	h, sup, led := one(t, asking)
	h.batch(sup, ended(verbs.CommandHWCounters, 40_000, ""))
	led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Port: 1, Thread: 7, Since: 10 * second})
	h.mono.Store(12 * second)
	h.batch(sup)
	require.Empty(t, of[measure.Command](h.sink.take()))
	require.EqualValues(t, 2*second, h.gather().Commands[0].BusyNS)

	h.mono.Store(15 * second)
	h.batch(sup)
	changed := of[measure.Command](h.sink.take())
	require.Len(t, changed, 1, "it is emitted at once")
	require.True(t, changed[0].Stuck)
	require.EqualValues(t, 5*second, changed[0].BusyNS)
	require.Equal(t, time.Unix(0, epoch+15*second), changed[0].At)
	h.mono.Store(16 * second)
	h.batch(sup)
	require.Empty(t, of[measure.Command](h.sink.take()), "once")
	s := h.gather()
	require.True(t, s.Commands[0].Stuck)
	require.EqualValues(t, 1, s.Hosts[0].Stuck)

	led.SetEvidenceCall(ledger.ThreadCall{Since: 17 * second})
	h.batch(sup, ended(verbs.CommandHWCounters, 7*second, "ETIMEDOUT"))
	require.True(t, h.gather().Commands[0].Stuck, "it ended without an answer")
	h.batch(sup, ended(verbs.CommandHWCounters, 40_000, ""))
	changed = of[measure.Command](h.sink.take())
	require.Len(t, changed, 1)
	require.False(t, changed[0].Stuck)
	require.Zero(t, h.gather().Hosts[0].Stuck)
}

func TestThreeCallsWithoutAnAnswerAreStuck(t *testing.T) {
	for _, c := range []struct {
		errnos []string
		stuck  bool
	}{
		{[]string{"ETIMEDOUT", "EIO", "ETIMEDOUT"}, true},
		{[]string{"ETIME", "ENODEV", "ENODEV"}, true},
		{[]string{"ETIMEDOUT", "ETIMEDOUT"}, false},
		{[]string{"ETIMEDOUT", "EBUSY", "ETIMEDOUT", "ETIMEDOUT"}, false},
		{[]string{"ETIMEDOUT", "", "ETIMEDOUT", "ETIMEDOUT"}, false},
		{[]string{"EINVAL", "EINVAL", "EINVAL"}, false},
		{[]string{"ETIMEDOUT", "ETIMEDOUT", "ETIMEDOUT", "EBUSY"}, true},
		{[]string{"ETIMEDOUT", "ETIMEDOUT", "ETIMEDOUT", ""}, false},
	} {
		h, sup, _ := one(t, asking)
		for _, errno := range c.errnos {
			h.batch(sup, ended(verbs.CommandQueryQP, 1, errno))
		}
		require.Equal(t, c.stuck, h.gather().Commands[0].Stuck, "%q", c.errnos)
	}
}

// With most drivers a query is no command. If it hangs all the same, that is reported.
func TestAQueryThatHangsIsStuckWithAnyDriver(t *testing.T) {
	for _, call := range []ledger.Call{ledger.CallQueryPort, ledger.CallReadSysfs} {
		h, sup, led := one(t, asking)
		led.SetControlCall(ledger.ThreadCall{Call: call, Port: 1, Since: 10 * second})
		h.mono.Store(14 * second)
		h.batch(sup)
		require.Empty(t, h.gather().Commands, "it may be over soon")
		h.mono.Store(15 * second)
		h.batch(sup)
		s := h.gather()
		require.Len(t, s.Commands, 1)
		require.Equal(t, verbs.CommandQueryPort, s.Commands[0].Call)
		require.True(t, s.Commands[0].Stuck)
		require.Empty(t, s.Commands[0].Status, "none has ended")
	}
}

func TestCallsOfAnOpeningAreNoCommands(t *testing.T) {
	h, sup, led := one(t, asking)
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Since: 10 * second})
	h.mono.Store(60 * second)
	h.batch(sup)
	require.Empty(t, h.gather().Commands)
}

func TestWithoutCommandsNothingIsStuck(t *testing.T) {
	h, sup, led := one(t, nil)
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Since: 10 * second})
	h.mono.Store(60 * second)
	h.batch(sup)
	require.Empty(t, h.gather().Commands)
}

// Another worker has to ask again, and the state stays until it knows.
func TestAStuckCallOutlivesItsWorkerAndNotItsDevice(t *testing.T) {
	h, sup, led := one(t, asking)
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Since: 10 * second})
	h.mono.Store(20 * second)
	h.batch(sup)
	require.True(t, h.gather().Commands[0].Stuck)
	sup.Ended(status.End{Reason: status.ReasonStuck})
	c := h.gather().Commands[0]
	require.True(t, c.Stuck)
	require.Zero(t, c.BusyNS)
	h.sink.take()
	h.finds()
	changed := of[measure.Command](h.sink.take())
	require.Len(t, changed, 1)
	require.False(t, changed[0].Stuck)
	require.Empty(t, h.gather().Commands, "the device is gone")
}

// The worker is still in the call when the device goes, and its last batch comes after that.
func TestACallOfADeviceThatIsGoneIsNotStuckAgain(t *testing.T) {
	h, sup, led := one(t, asking)
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Since: 10 * second})
	h.mono.Store(20 * second)
	h.batch(sup)
	h.finds()
	h.batch(sup, ended(verbs.CommandQueryPort, 1, "ETIMEDOUT"))
	h.gather()
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	changed := of[measure.Command](h.sink.take())
	require.Len(t, changed, 2)
	require.True(t, changed[0].Stuck)
	require.False(t, changed[1].Stuck)
	h.finds(found("mlx5_0", 1))
	h.opens(sup, "mlx5_0")
	for _, c := range h.gather().Commands {
		require.False(t, c.Stuck, "it comes back without its past")
	}
}

// With most drivers no Command follows a query, so the answer itself has to do.
func TestAQueryIsNotStuckOnceItsPortHasAnswered(t *testing.T) {
	h, sup, led := one(t, asking)
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Since: 10 * second})
	h.mono.Store(20 * second)
	h.batch(sup)
	require.Empty(t, of[measure.Command](h.sink.take())[0].Status)
	led.SetControlCall(ledger.ThreadCall{Since: 21 * second})
	h.batch(sup, reading(1, 21*second, verbs.PortActive))
	changed := of[measure.Command](h.sink.take())
	require.Len(t, changed, 1)
	require.False(t, changed[0].Stuck)
	require.Equal(t, measure.CommandOK, changed[0].Status)

	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Since: 30 * second})
	h.runs(sup, 40*second)
	h.batch(sup)
	sup.Ended(status.End{Reason: status.ReasonStuck})
	require.True(t, h.gather().Commands[0].Stuck)
	h.opens(sup, "mlx5_0")
	require.False(t, h.gather().Commands[0].Stuck, "another worker was answered")
}

// The next worker finds no counter that it could read.
func TestACallThatIsNoLongerMadeIsNotStuckForEver(t *testing.T) {
	h, sup, led := one(t, asking)
	led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Port: 1, Since: 10 * second})
	h.mono.Store(20 * second)
	h.batch(sup)
	sup.Ended(status.End{Reason: status.ReasonStuck})
	h.opens(sup, "mlx5_0")
	h.mono.Store(60 * second)
	h.batch(sup)
	require.True(t, h.gather().Commands[0].Stuck)
	h.mono.Store(81 * second)
	h.batch(sup)
	require.False(t, h.gather().Commands[0].Stuck)
}

// A device that is gone has answered nothing, nor has one that is no longer asked.
func TestOnlyAnAnswerIsLoggedAsOne(t *testing.T) {
	var log strings.Builder
	h, sup, led := one(t, func(c *Config) {
		asking(c)
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	const which = ` device=mlx5_0 call=hw_counters port=1`
	const stuck, again = `msg="the device has not answered for 5s"` + which, `msg="the device answers again"` + which
	hang := func(at int64) {
		led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Port: 1, Since: at})
		h.runs(sup, at+10*second)
		h.batch(sup)
	}
	hang(10 * second)
	led.SetEvidenceCall(ledger.ThreadCall{Since: 21 * second})
	h.batch(sup, ended(verbs.CommandHWCounters, 11*second, ""))
	require.Equal(t, 1, strings.Count(log.String(), again))

	hang(30 * second)
	sup.Ended(status.End{Reason: status.ReasonStuck})
	led = h.opens(sup, "mlx5_0")
	h.mono.Store(40*second + unasked + second)
	h.batch(sup)
	require.False(t, h.gather().Commands[0].Stuck)

	hang(110 * second)
	h.finds()
	require.Equal(t, 3, strings.Count(log.String(), stuck))
	require.Equal(t, 1, strings.Count(log.String(), again))
}

// A guest is stopped for 20 s while a call is under way, and its clocks go on.
func TestACallIsNotStuckByAPauseOfTheHost(t *testing.T) {
	h, sup, led := one(t, asking)
	h.runs(sup, 10*second)
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Since: 10 * second})
	h.batch(sup)
	h.mono.Store(30 * second)
	require.Empty(t, h.gather().Commands, "the agent's timer goes off before the worker runs")
	h.batch(sup)
	h.runs(sup, 34*second)
	require.Empty(t, of[measure.Command](h.sink.take()))
	h.runs(sup, 36*second)
	h.batch(sup)
	stuck := of[measure.Command](h.sink.take())
	require.Len(t, stuck, 1)
	require.True(t, stuck[0].Stuck, "it does not end after the pause either")
}

func TestACallThatHasEndedIsBusyNoLonger(t *testing.T) {
	h, sup, led := one(t, asking)
	led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Port: 1, Since: 10 * second})
	h.mono.Store(20 * second)
	h.batch(sup)
	led.SetEvidenceCall(ledger.ThreadCall{Since: 21 * second})
	h.sink.take()
	h.batch(sup, ended(verbs.CommandHWCounters, 11*second, ""))
	changed := of[measure.Command](h.sink.take())
	require.Len(t, changed, 1)
	require.Zero(t, changed[0].BusyNS)
}

// Restricted functions answer EIO from the start. A device that has answered does so when its firmware hangs.
func TestRefusalsAreNoStuckCommands(t *testing.T) {
	h, sup, _ := one(t, asking)
	eio := ended(verbs.CommandHWCounters, 1, "EIO")
	h.batch(sup, eio, eio, eio, eio)
	require.False(t, h.gather().Commands[0].Stuck)
	h.batch(sup, ended(verbs.CommandHWCounters, 1, ""), eio, eio, eio)
	require.True(t, h.gather().Commands[0].Stuck)
}
