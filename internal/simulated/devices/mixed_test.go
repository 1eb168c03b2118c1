package devices

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// diary records the events and outcomes of one device of the mixed scenario.
type diary struct {
	events   map[string]uint64
	outcomes map[verbs.Outcome]int
	unusable int // probes
	opens    int
}

// watch reads events of a device and probes it until a time. It opens the device again
// after each removal.
func (s *scene) watch(name string, until int64) diary {
	s.Helper()
	d := diary{events: map[string]uint64{}, outcomes: map[verbs.Outcome]int{}}
	for fakeTime() < until {
		dev, err := New(s.w).Open(name, s.led)
		if errors.Is(err, verbs.ErrNoDevice) {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		require.NoError(s, err)
		s.dev = dev
		d.opens++
		s.readAndProbe(&d, until)
		require.NoError(s, dev.Close(time.Second))
	}
	return d
}

// readAndProbe opens the device and uses it until its removal or until a time.
func (s *scene) readAndProbe(d *diary, until int64) {
	s.Helper()
	var p verbs.Probe
	for fakeTime() < until {
		for _, r := range s.readRuns(200 * time.Millisecond) {
			d.events[r.Type.String()] += r.Count
		}
		if _, err := s.dev.QueryPort(1); errors.Is(err, verbs.ErrNoDevice) {
			return
		}
		if p == nil {
			p = s.probe(verbs.MethodFlush, 1)
			if attr, _ := s.dev.QueryPort(1); attr.State == verbs.PortActive {
				p = s.probe(verbs.MethodRCWrite, 1)
			}
		}
		d.outcomes[s.round(p).Outcome]++
		if !p.Usable() {
			d.unusable++
			require.NoError(s, p.Close(time.Second))
			p = nil
		}
	}
}

func TestMixedScenarioShowsEverythingEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "")
		require.NoError(t, s.dev.Close(0))
		epoch := fakeTime()
		s.w = mustLoad(t, Options{Profile: "roce2", Scenario: "mixed", Seed: 1, Clock: fakeTime, Die: s.w.die})
		d := s.watch("sim0", epoch+180*second)
		for event, want := range map[string]uint64{
			"port_err": 15, "port_active": 15, "gid_change": 30, "pkey_change": 60000, "unknown_42": 3,
			"device_fatal": 3, "device_speed_change": 3, "sm_change": 3, "lid_change": 3, "client_reregister": 3,
		} {
			require.Equal(t, want, d.events[event], event)
		}
		require.Equal(t, 4, d.opens)
		require.Len(t, s.die, 3)
		for o := verbs.OutcomeSuccess; o < verbs.OutcomeCanceled; o++ {
			require.NotZero(t, d.outcomes[o], o)
		}
		require.NotZero(t, d.unusable)
		for _, p := range s.snapshot().Probes {
			require.Equal(t, p.Events, p.Acked)
			require.Equal(t, p.Rounds, p.Successes+p.Errors+p.LostEvents+p.LostCompletions+p.Disturbed)
		}
		for _, e := range s.snapshot().Events {
			require.Equal(t, e.Read, e.Acked)
		}
	})
}
