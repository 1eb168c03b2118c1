package timeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/record/recorder"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/schema"
)

const second = 1000 // of at

func qpFatal(ms int, number uint32) *measure.AppEvent {
	return &measure.AppEvent{
		Device: "mlx5_0", App: "python3", Type: verbs.EventQPFatal, Count: 1, PID: 4711, Number: number, Unit: "job_1870", At: at(ms),
	}
}

func appAsync(ms int, age time.Duration, errors, read, discarded uint64) *measure.AppAsync {
	a := &measure.AppAsync{Device: "mlx5_0", App: "python3", UnreadErrors: errors, UnreadAge: int64(age), At: at(ms)}
	a.Read, a.Discarded = read, discarded
	return a
}

func appHang(ms, threads, tid int) *measure.AppHang {
	h := &measure.AppHang{Device: "mlx5_0", App: "python3", Object: verbs.ScopeQP, Threads: threads, At: at(ms)}
	if threads > 0 {
		h.Age, h.Missing, h.PID, h.TID, h.Number, h.Proof = int64(10*time.Second), 2, 4711, tid, 284, trace.ProofAsleep
	}
	return h
}

func withoutTimes(all []StoredRecord) (lines []string) {
	for i := range all {
		lines = append(lines, strings.Join(strings.Fields(Style{}.StoredLine(&all[i]))[1:], " "))
	}
	return lines
}

func TestWhatApplicationsExperienceIsRecorded(t *testing.T) {
	off := &measure.Tracer{Worker: status.Status{Reason: status.ReasonCrashed, Message: "the tracer died of SIGKILL"}, At: at(70 * second)}
	all := runRecording(t, t.TempDir()+"/r", func(r *Recording) {
		r.Emit(qpFatal(1, 284))
		for _, p := range []measure.Point{
			&measure.Tracer{Attached: true, Hooks: "kprobe", Worker: status.Status{Reason: status.ReasonOK}, At: at(0)},
			appHang(20*second, 1, 4713), appHang(30*second, 1, 4713), appHang(40*second, 0, 0), off, off,
		} {
			r.RecordInterval([]measure.Point{p})
		}
	})
	require.ElementsMatch(t, []string{
		"applications traced: kprobe",
		"mlx5_0 python3[4711] job_1870 qp_fatal qp 284",
		"mlx5_0 python3[4711] hangs in destroy of qp 284, 2 acks missing",
		"mlx5_0 python3[4711] no longer hangs in destroy of qp 284, after 30s",
		"applications not traced: crashed the tracer died of SIGKILL",
	}, withoutTimes(all))
	for _, k := range all {
		text, err := json.Marshal(k)
		require.NoError(t, err)
		schema.Require(t, "events", string(text))
	}
}

func TestErrorsThatNobodyReadsAreRecordedOnceAndTheirEndToo(t *testing.T) {
	all := runRecording(t, t.TempDir()+"/r", func(r *Recording) {
		for _, p := range []*measure.AppAsync{
			appAsync(0, 0, 0, 1, 0), appAsync(10*second, 9*time.Second, 1, 1, 0), appAsync(20*second, 19*time.Second, 1, 1, 0),
			appAsync(30*second, 29*time.Second, 2, 1, 0), appAsync(40*second, 0, 0, 3, 0), appAsync(50*second, 0, 0, 3, 0),
		} {
			r.RecordInterval([]measure.Point{p})
		}
	})
	require.Equal(t, []string{"mlx5_0 python3 not read for 19s", "mlx5_0 python3 read after 39s"}, withoutTimes(all))
	for _, k := range all {
		text, err := json.Marshal(k)
		require.NoError(t, err)
		schema.Require(t, "events", string(text))
	}
}

func TestHowUnreadErrorsEndIsSaidOnlyWhereItIsCertain(t *testing.T) {
	for _, tt := range []struct {
		want string
		last *measure.AppAsync
	}{
		{"read after 31s", appAsync(40*second, 0, 0, 2, 1)},
		{"discarded unread after 31s", appAsync(40*second, 0, 0, 1, 2)},
		{"no longer unread, after 31s", appAsync(40*second, 0, 0, 2, 2)},
		{"no longer unread, after 31s", appAsync(40*second, 0, 0, 0, 0)}, // the counters began anew
	} {
		c := NewChanges(RegisterUnreadErrors)
		_, ok := c.RecordOf(appAsync(20*second, 11*time.Second, 1, 1, 1), nil)
		require.True(t, ok)
		r, ok := c.RecordOf(tt.last, nil)
		require.True(t, ok)
		require.Equal(t, tt.want, r.Unread.line())
	}
}

// The application read the queue in between, so the errors that wait now have not waited for long.
func TestErrorsThatFollowThoseThatWereReadAreNewsOfTheirOwn(t *testing.T) {
	c := NewChanges(RegisterUnreadErrors)
	var lines []string
	for _, p := range []*measure.AppAsync{
		appAsync(20*second, 11*time.Second, 1, 1, 0), appAsync(30*second, 3*time.Second, 1, 2, 0), appAsync(40*second, 13*time.Second, 1, 2, 0),
	} {
		if r, ok := c.RecordOf(p, nil); ok {
			lines = append(lines, r.Unread.line())
		}
	}
	require.Equal(t, []string{"not read for 11s", "read after 21s", "not read for 13s"}, lines)
}

func TestAnotherThreadThatHangsIsNews(t *testing.T) {
	c := NewChanges(RegisterApplications)
	var lines []string
	for _, p := range []*measure.AppHang{
		appHang(0, 0, 0), appHang(10*second, 1, 1), appHang(11*second, 2, 1), appHang(12*second, 1, 2), appHang(13*second, 1, 2), appHang(14*second, 0, 0),
	} {
		if r, ok := c.RecordOf(p, nil); ok {
			lines = append(lines, r.Hang.line(r.App))
		}
	}
	require.Equal(t, []string{
		"hangs in destroy of qp 284, 2 acks missing", "hangs in destroy of qp 284, 2 acks missing, 2 threads",
		"hangs in destroy of qp 284, 2 acks missing", "no longer hangs in destroy of qp 284, after 12s",
	}, lines)
}

// 10,000 events of one application come at once.
func TestAStormOfAnApplicationIsRecordedToTheLastEvent(t *testing.T) {
	const storm = 10_000
	all := runRecording(t, t.TempDir()+"/r", func(r *Recording) {
		for i := range storm {
			r.Emit(qpFatal(i, uint32(i+1)))
		}
	})
	var events uint64
	for _, k := range all {
		events += k.Count
	}
	require.EqualValues(t, storm, events)
	require.Equal(t, at(storm-1), all[len(all)-1].Time)
	require.Zero(t, all[len(all)-1].App.Number, "a record of several queue pairs has no number")
	require.Less(t, len(all), storm/10)
}

// Any user may start processes with any number of names. Their records wait for their turn, and all are recorded at the end.
func TestAStormOfManyApplicationsHoldsUpNoRecordOfADevice(t *testing.T) {
	const names = 1000
	synctest.Test(t, func(t *testing.T) {
		all := runRecording(t, t.TempDir()+"/r", func(r *Recording) {
			for i := range names {
				p := qpFatal(i, 284)
				p.App = fmt.Sprint("a", i)
				r.Emit(p)
			}
			r.Emit(&measure.Event{Device: "mlx5_0", Port: 1, Type: verbs.EventPortErr, Count: 1, Total: 1, At: at(0)})
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			require.EqualValues(t, perSecond+1, r.Counts().Recorded)
		})
		require.Len(t, all, names+1)
		require.True(t, slices.ContainsFunc(all[:perSecond+1], func(k StoredRecord) bool { return k.Kind == KindEvent }))
	})
}

// There is one record of the device every 100 seconds, and twice as many records of applications as the directory has space for.
func TestAFloodOfApplicationsDisplacesNoRecordOfADevice(t *testing.T) {
	const rounds = 25
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("u", 64)
		all := runRecording(t, t.TempDir()+"/r", func(r *Recording) {
			for i := range rounds * 100 {
				if i%100 == 0 {
					r.Emit(&measure.Event{Device: "mlx5_0", Port: 1, Type: verbs.EventPortErr, Count: 1, Total: uint64(i/100 + 1), At: at(i)})
				}
				for j := range perSecond {
					p := qpFatal(i, 284)
					p.App, p.Unit = fmt.Sprintf("a%d", j), text
					r.Emit(p)
				}
				time.Sleep(time.Second)
			}
			require.Zero(t, r.Counts().Lost)
		})
		var devices, apps int
		for _, k := range all {
			switch k.Kind {
			case KindEvent:
				devices++
			case KindAppEvent:
				apps++
			}
		}
		require.Equal(t, rounds, devices)
		require.Less(t, apps, rounds*100*perSecond)
		require.Greater(t, apps, rounds*100*perSecond/10)
	})
}

func TestARecordOfAnApplicationCommandsNoTerminal(t *testing.T) {
	k, err := NewStoredRecord(&recorder.Record{
		Kind: KindAppEvent, Device: "mlx5_0", Data: []byte(`{"event":"qp_fatal","app":{"name":"\u001b[2Jx\n","unit":"job_1\u009b"}}`),
	})
	require.NoError(t, err)
	require.Contains(t, Style{}.StoredLine(&k), "mlx5_0      ?[2Jx? job_1?        qp_fatal")

	for _, r := range []recorder.Record{
		{Kind: KindAppEvent}, {Kind: KindAppUnread, Data: []byte(`{"app":{}}`)}, {Kind: KindAppHang, Data: []byte(`{"hang":{}}`)}, {Kind: KindTracer},
	} {
		_, err := NewStoredRecord(&r)
		require.ErrorContains(t, err, "without its data", r.Kind)
	}
}

func TestADurationIsZeroIfTheClockWasSetBackByMore(t *testing.T) {
	stuck := func(ms int, is bool) *measure.Command {
		return &measure.Command{Device: "mlx5_0", Port: 1, Call: verbs.CommandHWCounters, Stuck: is, At: at(ms)}
	}
	c := NewChanges(RegisterApplications, RegisterUnreadErrors, RegisterDevices)
	for _, p := range []measure.Point{appAsync(3600*second, 11*time.Second, 1, 1, 1), appHang(3600*second, 1, 1), stuck(3600*second, true)} {
		_, ok := c.RecordOf(p, nil)
		require.True(t, ok)
	}
	var lines []string
	for _, p := range []measure.Point{appAsync(0, 0, 0, 2, 1), appHang(0, 0, 0), stuck(0, false)} {
		r, ok := c.RecordOf(p, nil)
		require.True(t, ok)
		lines = append(lines, Style{}.Line(&r))
	}
	for i, want := range []string{"read after 0s", "no longer hangs in destroy of qp 284, after 0s", "hw_counters no longer stuck, after 0s"} {
		require.Contains(t, lines[i], want)
	}
}
