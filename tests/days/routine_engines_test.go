package days

import (
	"flag"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var askEngines = flag.Bool("days.engines", false, "have InfluxDB and Prometheus judge the days too, which takes minutes")

func needEngines(t *testing.T) {
	t.Helper()
	if !*askEngines {
		t.Skip("needs -days.engines")
	}
}

// played is an action and when it began.
type played struct {
	*action
	at time.Time
}

// Both engines are held to the same table as health.
func TestRoutineDayFiresNoCriticalAlert(t *testing.T) {
	needEngines(t)
	d := day{every: 30 * time.Second, begin: clockStart().Add(time.Hour)}
	var all []played
	synctest.Test(t, func(t *testing.T) {
		lines := d.recording(t)
		h := newOrdinary(t)
		h.lines, h.every = lines, d.every
		h.settleIn()
		playRoutineDay(t, h, func(a *action, at time.Time) { all = append(all, played{a, at}) })
		d.ends, d.newList = h.wall(), h.other.otherHas
		require.NoError(t, lines.Err())
	})
	began := time.Now()
	t.Logf("%d MB of lines from %v to %v", d.lines.Len()>>20, d.begin, d.ends)
	e := fillEngines(t, &d)
	t.Logf("both engines are filled after %v", time.Since(began).Round(time.Second))
	f := e.firingInfluxDB(t)
	t.Logf("InfluxDB is asked after %v", time.Since(began).Round(time.Second))
	requireRoutine(t, f, all)
	e.requireOfPrometheus(t, f, func(at time.Time) []string {
		var names []string
		for _, p := range all {
			if at.After(p.at) {
				names = append(names, p.expected()...)
			}
		}
		return names
	})
	t.Logf("Prometheus is asked after %v", time.Since(began).Round(time.Second))
}

// expected returns the alerts that an action may raise.
func (a *action) expected() []string {
	var names []string
	for _, w := range a.warnings {
		names = append(names, "warning "+w)
	}
	return names
}

// requireRoutine requires that each action raises the alerts that its row names, and no other.
func requireRoutine(t *testing.T, f *firing, all []played) {
	t.Helper()
	raised := map[string]bool{}
	for _, one := range f.episodes() {
		var by played
		for _, p := range all {
			if p.at.Before(one.from) {
				by = p
			}
		}
		require.NotNil(t, by.action, "%s from %v on, before the first action", one.alert, one.from)
		t.Logf("%s: %s from %v to %v", by.name, one.alert, one.from, one.till)
		alert, port, _ := strings.Cut(one.alert, ":")
		require.Contains(t, by.expected(), alert, "%s: port %s", by.name, port)
		raised[alert] = true
	}
	for _, p := range all {
		for _, name := range p.expected() {
			require.Contains(t, raised, name, p.name)
		}
	}
}
