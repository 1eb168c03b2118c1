package measure

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/device/verbs"
)

func TestOnlyWhatIsKnownOfAnApplicationIsOnItsLine(t *testing.T) {
	l := onlyLine(t, &App{Device: "d", App: "a", QPs: Held{Count: 0, Known: true}, Contexts: Held{Count: 7}})
	require.Equal(t, Line{Name: "rdma_app", Tags: map[string]string{"device": "d", "app": "a"}, Fields: map[string]any{"qps": int64(0)}}, l)

	(&App{Device: "d", App: "a"}).Lines(func(l Line) { require.Fail(t, "a line without a field", "%v", l) })
}

func TestApplicationsOfDifferentUnitsDoNotMerge(t *testing.T) {
	a, b := &App{Device: "d", App: "a b"}, &App{Device: "d", App: "a", Unit: "b"}
	require.NotEqual(t, a.Key(), b.Key())
}

func TestEventsOfAnApplicationAddUpAndTheLastOneIsShown(t *testing.T) {
	p := &AppEvent{Type: verbs.EventQPFatal, Count: 3, Total: 3, First: at(1), PID: 7, Number: 70, Unit: "a.service", At: at(2)}
	p.Merge(&AppEvent{Type: verbs.EventQPFatal, Count: 4, Total: 7, First: at(3), PID: 8, At: at(4)})
	require.Equal(t, &AppEvent{Type: verbs.EventQPFatal, Count: 7, Total: 7, First: at(1), At: at(4)}, p)
	require.EqualValues(t, 7, p.Events())
}

func TestMergedEventsKeepOnlyWhatAllOfThemHave(t *testing.T) {
	e := func(pid int, number uint32, unit string) *AppEvent {
		return &AppEvent{Type: verbs.EventQPFatal, Count: 1, PID: pid, Number: number, Unit: unit}
	}
	for _, row := range []struct {
		events []*AppEvent
		want   *AppEvent
	}{
		{[]*AppEvent{e(7, 70, "a"), e(7, 70, "a"), e(7, 70, "a")}, e(7, 70, "a")},
		{[]*AppEvent{e(7, 70, "a"), e(7, 71, "a")}, e(7, 0, "a")},
		{[]*AppEvent{e(7, 70, "a"), e(8, 70, "a")}, e(0, 70, "a")},
		{[]*AppEvent{e(7, 70, "a"), e(8, 71, "b"), e(8, 71, "b")}, e(0, 0, "")},
		{[]*AppEvent{e(7, 70, "a"), e(7, 0, "a"), e(7, 70, "a")}, e(7, 0, "a")},
	} {
		got := row.events[0]
		for _, later := range row.events[1:] {
			got.Merge(later)
		}
		row.want.Count = uint64(len(row.events))
		require.Equal(t, row.want, got)
	}
}

func TestErrorsOfAnApplicationAreAlwaysOnItsLineAndOtherEventsOnceTheyWereSeen(t *testing.T) {
	a := &AppAsync{Device: "d", App: "a", Attached: true}
	a.Types[verbs.EventCommEst] = 2
	l := onlyLine(t, a)
	require.Equal(t, map[string]any{
		"processes": int64(0), "queued": int64(2), "read": int64(0), "discarded": int64(0), "skipped": int64(0), "unread": int64(0),
		"unread_errors": int64(0), "unread_age_ns": int64(0), "destroyed_unacked": int64(0), "comm_est": int64(2),
		"cq_err": int64(0), "qp_fatal": int64(0), "qp_req_err": int64(0), "qp_access_err": int64(0), "srq_err": int64(0),
		"wq_fatal": int64(0), "device_fatal": int64(0),
	}, l.Fields)
	require.Equal(t, map[string]string{"device": "d", "app": "a"}, l.Tags)
}

func TestAnEventWithoutANumberHasNone(t *testing.T) {
	l := onlyLine(t, &AppEvent{Device: "d", App: "a", Type: verbs.EventDeviceFatal, Count: 1, Total: 1})
	require.Equal(t, map[string]any{"count": int64(1), "total": int64(1)}, l.Fields)
	require.Equal(t, map[string]string{"device": "d", "app": "a", "event": "device_fatal", "object": "device"}, l.Tags)
}

func TestATracerThatNeverRanSaysSo(t *testing.T) {
	require.Equal(t, map[string]any{
		"attached": int64(0), "hooks_missing": int64(0), "restarts": int64(0), "gaps": int64(0), "blind_ns": int64(0),
		"lost_records": int64(0), "map_full": int64(0), "processes": int64(0),
	}, onlyLine(t, &Tracer{}).Fields)
}

func TestAHostHasNothingOfApplicationsUnlessAsked(t *testing.T) {
	for _, name := range []string{"app_errors", "app_hangs", "app_unread_errors"} {
		require.NotContains(t, onlyLine(t, &Host{}).Fields, name)
		require.Equal(t, int64(0), onlyLine(t, &Host{Apps: &HostApps{Attached: true}}).Fields[name])
	}
}

func TestWithoutATracerNobodyKnowsWhatIsUnread(t *testing.T) {
	fields := onlyLine(t, &AppAsync{Device: "d", App: "a", Unread: 3, UnreadErrors: 2, UnreadAge: 7}).Fields
	for _, name := range []string{"unread", "unread_errors", "unread_age_ns"} {
		require.NotContains(t, fields, name)
	}
	require.NotContains(t, onlyLine(t, &Host{Apps: &HostApps{UnreadErrors: 2}}).Fields, "app_unread_errors")
}

// Two names that package identity distinguishes must stay distinct in line protocol. Otherwise one series would overwrite the
// other.
func FuzzTheNameOfAProcessIsAlreadyFitForALine(f *testing.F) {
	for _, comm := range []string{"python3", "a\nb", "\xff\\", "ä\x7f", ""} {
		f.Add(comm)
	}
	f.Fuzz(func(t *testing.T, comm string) {
		name := identity.CleanComm(comm)
		require.Equal(t, name, cleanText(name))
		require.NotEmpty(t, name)
	})
}
