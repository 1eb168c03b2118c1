package days

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The rules of both engines are held to the same table of faults as health. Beside them another host is silent for some hours, which only
// the engines can see.
func TestFaultsFireUntilMended(t *testing.T) {
	needEngines(t)
	d := day{every: time.Minute, begin: clockStart().Add(time.Hour)}
	var phases []time.Time
	synctest.Test(t, func(t *testing.T) {
		lines := d.recording(t)
		h := newOrdinary(t)
		h.lines, h.every = lines, d.every
		h.settleIn()
		playBadDays(t, h, func(at time.Time) { phases = append(phases, at) })
		d.ends = h.wall()
		require.NoError(t, lines.Err())
	})
	d.silent, d.back = d.begin.Add(10*time.Hour), d.begin.Add(30*time.Hour)
	d.changes = append(slices.Clone(phases), d.silent, d.back)
	begun := time.Now()
	t.Logf("%d MB of lines from %v to %v", d.lines.Len()>>20, d.begin, d.ends)
	e := fillEngines(t, &d)
	t.Logf("both engines are filled after %v", time.Since(begun).Round(time.Second))
	f := e.firingInfluxDB(t)
	t.Logf("InfluxDB is asked after %v", time.Since(begun).Round(time.Second))
	for _, one := range f.episodes() {
		t.Logf("%s from %v to %v", one.alert, one.from, one.till)
	}
	all := expectedAlerts(&d, phases)
	f.requireLasting(t, all)
	e.requireOfPrometheus(t, f, func(at time.Time) []string {
		var names []string
		for _, x := range all {
			if x.allows(at) {
				names = append(names, x.alert)
			}
		}
		return names
	})
	t.Logf("Prometheus is asked after %v", time.Since(begun).Round(time.Second))
}

// expectation is an alert that must fire in some times and may fire in a longer one.
type expectation struct {
	alert string
	must  [][2]time.Time
	may   [2]time.Time
}

func inSpan(span [2]time.Time, at time.Time) bool { return at.After(span[0]) && at.Before(span[1]) }

func (x *expectation) allows(at time.Time) bool { return inSpan(x.may, at) }

func (x *expectation) requires(at time.Time) bool {
	return slices.ContainsFunc(x.must, func(span [2]time.Time) bool { return inSpan(span, at) })
}

// expectedAlerts returns when each alert must fire and when it may. In each run of the plugin, the alert of a fault fires once the
// fault has lasted long enough. The faults begin in the first phase and are mended at the start of the last.
func expectedAlerts(d *day, phases []time.Time) []expectation {
	const lookBack = 30 * time.Minute
	// A restart lasts two intervals. Then two points have to be there, and two evaluations to see it.
	late := 2*d.every + 2*d.every + 2*evaluation
	last := len(phases) - 1
	var all []expectation
	for _, f := range lastingFaults() {
		x := expectation{alert: f.problem, may: [2]time.Time{phases[0], phases[last].Add(tolerance + late)}}
		if f.lingers {
			x.may[1] = x.may[1].Add(lookBack)
		}
		for i, begin := range phases[:last] {
			x.must = append(x.must, [2]time.Time{begin.Add(f.within + late), phases[i+1]})
		}
		all = append(all, x)
	}
	const silentFor, everySlow = 10 * time.Minute, 5 * time.Minute
	return append(all, expectation{
		alert: "critical plugin-silent", must: [][2]time.Time{{d.silent.Add(silentFor + 2*everySlow), d.back}},
		may: [2]time.Time{d.silent, d.back.Add(3 * everySlow)},
	})
}

// requireLasting requires what is expected of the alerts at each evaluation.
func (f *firing) requireLasting(t *testing.T, all []expectation) {
	t.Helper()
	for i, at := range f.times {
		fires := slices.Clone(f.alerts[i])
		for _, x := range all {
			if x.requires(at) {
				require.Contains(t, fires, x.alert, at)
			}
			if x.allows(at) {
				fires = slices.DeleteFunc(fires, func(alert string) bool { return alert == x.alert })
			}
		}
		require.Empty(t, fires, at)
	}
}
