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

func withCommands(c *Config) { c.CommandStuck = 5 * time.Second }

func commandItem(call verbs.CommandCall, took int64, errno string) verbs.Item {
	return verbs.Item{Command: &verbs.Command{Call: call, Port: 1, Took: took, Status: errno}}
}

func TestCommandsAreCountedByCall(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withCommands)
	require.Empty(t, h.gather().Commands, "no call, no series")
	h.mono.Store(second)
	h.batch(sup, commandItem(verbs.CommandHWCounters, 40_000, ""), commandItem(verbs.CommandHWCounters, 80_000, ""),
		commandItem(verbs.CommandQueryPort, 10_000, "EBUSY"))
	require.Empty(t, pointsOf[measure.Command](h.sink.takePoints()), "nothing is stuck")
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

// While the worker is in the call, only the ledger shows it.
func TestACallThatLastsIsStuckUntilOneSucceeds(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, withCommands)
	h.batch(sup, commandItem(verbs.CommandHWCounters, 40_000, ""))
	led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Port: 1, Thread: 7, Since: 10 * second})
	h.mono.Store(12 * second)
	h.batch(sup)
	require.Empty(t, pointsOf[measure.Command](h.sink.takePoints()))
	require.EqualValues(t, 2*second, h.gather().Commands[0].BusyNS)

	h.mono.Store(15 * second)
	h.batch(sup)
	changed := pointsOf[measure.Command](h.sink.takePoints())
	require.Len(t, changed, 1, "it is emitted at once")
	require.True(t, changed[0].Stuck)
	require.EqualValues(t, 5*second, changed[0].BusyNS)
	require.Equal(t, time.Unix(0, epoch+15*second), changed[0].At)
	h.mono.Store(16 * second)
	h.batch(sup)
	require.Empty(t, pointsOf[measure.Command](h.sink.takePoints()), "once")
	s := h.gather()
	require.True(t, s.Commands[0].Stuck)
	require.EqualValues(t, 1, s.Hosts[0].Stuck)

	led.SetEvidenceCall(ledger.ThreadCall{Since: 17 * second})
	h.batch(sup, commandItem(verbs.CommandHWCounters, 7*second, "ETIMEDOUT"))
	require.True(t, h.gather().Commands[0].Stuck, "it ended without an answer")
	h.batch(sup, commandItem(verbs.CommandHWCounters, 40_000, ""))
	changed = pointsOf[measure.Command](h.sink.takePoints())
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
		h, sup, _ := startWithOpenDevice(t, withCommands)
		for _, errno := range c.errnos {
			h.batch(sup, commandItem(verbs.CommandQueryQP, 1, errno))
		}
		require.Equal(t, c.stuck, h.gather().Commands[0].Stuck, "%q", c.errnos)
	}
}

// With most drivers a query is no command. A query that hangs nevertheless is reported.
func TestAQueryThatHangsIsStuckWithAnyDriver(t *testing.T) {
	for _, call := range []ledger.Call{ledger.CallQueryPort, ledger.CallReadSysfs} {
		h, sup, led := startWithOpenDevice(t, withCommands)
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
	h, sup, led := startWithOpenDevice(t, withCommands)
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Since: 10 * second})
	h.mono.Store(60 * second)
	h.batch(sup)
	require.Empty(t, h.gather().Commands)
}

func TestWithoutCommandsNothingIsStuck(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, nil)
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Since: 10 * second})
	h.mono.Store(60 * second)
	h.batch(sup)
	require.Empty(t, h.gather().Commands)
}

// The next worker must ask again. The series stays stuck until that call has ended.
func TestAStuckCallOutlivesItsWorkerAndNotItsDevice(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, withCommands)
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Since: 10 * second})
	h.mono.Store(20 * second)
	h.batch(sup)
	require.True(t, h.gather().Commands[0].Stuck)
	sup.Ended(status.End{Reason: status.ReasonStuck})
	c := h.gather().Commands[0]
	require.True(t, c.Stuck)
	require.Zero(t, c.BusyNS)
	h.sink.takePoints()
	h.reportFound()
	changed := pointsOf[measure.Command](h.sink.takePoints())
	require.Len(t, changed, 1)
	require.False(t, changed[0].Stuck)
	require.Empty(t, h.gather().Commands, "the device is gone")
}

// The worker is still in the call when the device goes, and its last batch comes after that.
func TestACallOfADeviceThatIsGoneIsNotStuckAgain(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, withCommands)
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Since: 10 * second})
	h.mono.Store(20 * second)
	h.batch(sup)
	h.reportFound()
	h.batch(sup, commandItem(verbs.CommandQueryPort, 1, "ETIMEDOUT"))
	h.gather()
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	changed := pointsOf[measure.Command](h.sink.takePoints())
	require.Len(t, changed, 2)
	require.True(t, changed[0].Stuck)
	require.False(t, changed[1].Stuck)
	h.reportFound(foundDevice("mlx5_0", 1))
	h.openDevice(sup, "mlx5_0")
	for _, c := range h.gather().Commands {
		require.False(t, c.Stuck, "it comes back without its past")
	}
}

// With most drivers no Command follows a query, so the answer itself must end the stuck state.
func TestAQueryIsNotStuckOnceItsPortHasAnswered(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, withCommands)
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Since: 10 * second})
	h.mono.Store(20 * second)
	h.batch(sup)
	require.Empty(t, pointsOf[measure.Command](h.sink.takePoints())[0].Status)
	led.SetControlCall(ledger.ThreadCall{Since: 21 * second})
	h.batch(sup, readingItem(1, 21*second, verbs.PortActive))
	changed := pointsOf[measure.Command](h.sink.takePoints())
	require.Len(t, changed, 1)
	require.False(t, changed[0].Stuck)
	require.Equal(t, measure.CommandOK, changed[0].Status)

	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Since: 30 * second})
	h.runUntil(sup, 40*second)
	h.batch(sup)
	sup.Ended(status.End{Reason: status.ReasonStuck})
	require.True(t, h.gather().Commands[0].Stuck)
	h.openDevice(sup, "mlx5_0")
	require.False(t, h.gather().Commands[0].Stuck, "another worker was answered")
}

// The next worker finds no counter to read.
func TestACallThatIsNoLongerMadeIsNotStuckForEver(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, withCommands)
	led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Port: 1, Since: 10 * second})
	h.mono.Store(20 * second)
	h.batch(sup)
	sup.Ended(status.End{Reason: status.ReasonStuck})
	h.openDevice(sup, "mlx5_0")
	h.mono.Store(60 * second)
	h.batch(sup)
	require.True(t, h.gather().Commands[0].Stuck)
	h.mono.Store(81 * second)
	h.batch(sup)
	require.False(t, h.gather().Commands[0].Stuck)
}

// Neither a device that is gone nor one that is no longer asked counts as responding again.
func TestOnlyAnAnswerIsLoggedAsOne(t *testing.T) {
	var log strings.Builder
	h, sup, led := startWithOpenDevice(t, func(c *Config) {
		withCommands(c)
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	const which = ` device=mlx5_0 call=hw_counters port=1`
	const stuck, again = `msg="device not responding"` + which + ` for=5s`, `msg="device responding again"` + which
	hang := func(at int64) {
		led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Port: 1, Since: at})
		h.runUntil(sup, at+10*second)
		h.batch(sup)
	}
	hang(10 * second)
	led.SetEvidenceCall(ledger.ThreadCall{Since: 21 * second})
	h.batch(sup, commandItem(verbs.CommandHWCounters, 11*second, ""))
	require.Equal(t, 1, strings.Count(log.String(), again))

	hang(30 * second)
	sup.Ended(status.End{Reason: status.ReasonStuck})
	led = h.openDevice(sup, "mlx5_0")
	h.mono.Store(40*second + stuckAfterReopen + second)
	h.batch(sup)
	require.False(t, h.gather().Commands[0].Stuck)

	hang(110 * second)
	h.reportFound()
	require.Equal(t, 3, strings.Count(log.String(), stuck))
	require.Equal(t, 1, strings.Count(log.String(), again))
}

// A virtual machine is stopped for 20 s while a call is under way, and its clocks go on.
func TestACallIsNotStuckByAPauseOfTheHost(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, withCommands)
	h.runUntil(sup, 10*second)
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Since: 10 * second})
	h.batch(sup)
	h.mono.Store(30 * second)
	require.Empty(t, h.gather().Commands, "the agent's timer goes off before the worker runs")
	h.batch(sup)
	h.runUntil(sup, 34*second)
	require.Empty(t, pointsOf[measure.Command](h.sink.takePoints()))
	h.runUntil(sup, 36*second)
	h.batch(sup)
	stuck := pointsOf[measure.Command](h.sink.takePoints())
	require.Len(t, stuck, 1)
	require.True(t, stuck[0].Stuck, "it does not end after the pause either")
}

func TestACallThatHasEndedIsBusyNoLonger(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, withCommands)
	led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Port: 1, Since: 10 * second})
	h.mono.Store(20 * second)
	h.batch(sup)
	led.SetEvidenceCall(ledger.ThreadCall{Since: 21 * second})
	h.sink.takePoints()
	h.batch(sup, commandItem(verbs.CommandHWCounters, 11*second, ""))
	changed := pointsOf[measure.Command](h.sink.takePoints())
	require.Len(t, changed, 1)
	require.Zero(t, changed[0].BusyNS)
}

// Restricted functions answer EIO from the start. A device that has answered before returns EIO when its firmware hangs.
func TestRefusalsAreNoStuckCommands(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withCommands)
	eio := commandItem(verbs.CommandHWCounters, 1, "EIO")
	h.batch(sup, eio, eio, eio, eio)
	require.False(t, h.gather().Commands[0].Stuck)
	h.batch(sup, commandItem(verbs.CommandHWCounters, 1, ""), eio, eio, eio)
	require.True(t, h.gather().Commands[0].Stuck)
}
