package verbstest

import (
	"os"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func closingCases() []testCase {
	return []testCase{
		{"Close wakes a ReadEvents that waits for ever", nil, closeWakesReader},
		{"Close wakes a ReadEvents that waits long", nil, closeWakesPatientReader},
		{"Close ends the rounds of a running probe", nil, closeEndsRounds},
		{"Close reads the events that nobody has read", []Capability{SecondOpen, Injection}, closeReadsQueuedEvents},
		{"Close closes open probes and acknowledges their events", nil, closeClosesProbes},
		{"calls after Close return ErrClosed", nil, everyCallIsErrClosed},
		{"a closed probe is ErrClosed while its device goes on", nil, closedProbe},
		{"closing a probe ends its rounds", nil, closeProbeEndsRounds},
		{"closing a probe ends its pause", nil, closeEndsThePause},
		{"a nudge ends the pause and the round is not counted", nil, nudgeEndsThePause},
		{"a round waits for its pause", nil, aRoundWaitsForItsPause},
		{"the device can be opened again after Close", nil, reopenDevice},
	}
}

func closeWakesReader(s *session) {
	ended := make(chan error, 1)
	go func() { ended <- readForEver(s.dev) }()
	require.NoError(s.t, s.close())
	require.ErrorIs(s.t, receiveInTime(s.t, "ReadEvents", ended), verbs.ErrClosed)
}

func closeWakesPatientReader(s *session) {
	ended := make(chan error, 1)
	s.settle()
	go func() {
		_, err := s.dev.ReadEvents(make([]verbs.Run, 1), time.Hour)
		ended <- err
	}()
	require.NoError(s.t, s.close())
	require.ErrorIs(s.t, receiveInTime(s.t, "ReadEvents", ended), verbs.ErrClosed)
}

// keepProbing runs rounds until an error. It sends the first round to started.
func keepProbing(p verbs.Probe) (started chan verbs.Round, ended chan error) {
	started, ended = make(chan verbs.Round, 1), make(chan error, 1)
	go func() {
		for {
			r, err := p.Round(0)
			if err != nil {
				ended <- err
				return
			}
			select {
			case started <- r:
			default:
			}
		}
	}()
	return started, ended
}

func closeEndsRounds(s *session) {
	p := s.probe(s.f.Methods[0], 4)
	started, ended := keepProbing(p)
	receiveInTime(s.t, "the first round", started)
	require.NoError(s.t, s.close())
	require.ErrorIs(s.t, receiveInTime(s.t, "Round", ended), verbs.ErrClosed)
	s.requireAllAcked()
}

// closeReadsQueuedEvents closes a device once a handle that was opened later has read the events: the kernel queues an event for the
// handles in the order in which they were opened (ib_register_event_handler in drivers/infiniband/core/device.c).
func closeReadsQueuedEvents(s *session) {
	later := openSession(s.t, s.f)
	s.f.Inject(s.t, verbs.EventPKeyChange, s.f.Port, 3)
	s.f.Inject(s.t, verbs.EventSMChange, s.f.Port, 1)
	later.readUntil("four events", ampleRuns, []verbs.EventType{verbs.EventPKeyChange, verbs.EventSMChange},
		func(runs []verbs.Run) bool { return totalCount(runs) >= 4 })
	require.NoError(s.t, s.close())
	require.EqualValues(s.t, 3, s.counted(verbs.EventPKeyChange, s.f.Port))
	require.EqualValues(s.t, 1, s.counted(verbs.EventSMChange, s.f.Port))
	require.NoError(s.t, later.close())
}

func closeClosesProbes(s *session) {
	p := s.probe(s.f.Methods[0], 100)
	for range 5 {
		s.round(p)
	}
	require.NoError(s.t, s.close())
	s.requireAllAcked()
	require.ErrorIs(s.t, p.Close(patience), verbs.ErrClosed)
}

func everyCallIsErrClosed(s *session) {
	p := s.probe(s.f.Methods[0], 1)
	require.NoError(s.t, s.close())
	calls := map[string]func() error{
		"QueryPort":   func() error { _, err := s.dev.QueryPort(s.f.Port); return err },
		"GIDs":        func() error { _, err := s.dev.ReadGIDs(s.f.Port); return err },
		"ReadCounter": func() error { return s.dev.ReadCounter(s.f.Port) },
		"QueryQP":     func() error { return s.dev.QueryQP(s.f.Port) },
		"ReadEvents":  func() error { _, err := s.dev.ReadEvents(make([]verbs.Run, 1), -1); return err },
		"NewProbe":    func() error { _, err := s.dev.NewProbe(s.config(s.f.Methods[0], 1)); return err },
		"Close":       func() error { return s.dev.Close(patience) },
		"Round":       func() error { _, err := p.Round(0); return err },
		"Rounds":      func() error { _, _, err := p.Rounds(verbs.Pace{}); return err },
		"Probe.Close": func() error { return p.Close(patience) },
	}
	for name, call := range calls {
		err := callInTime(s.t, name, call)
		require.ErrorIs(s.t, err, verbs.ErrClosed, name)
		require.ErrorIs(s.t, err, os.ErrClosed, name)
	}
	require.Equal(s.t, s.f.Device, s.dev.Attr().Name)
}

// closeEndsThePause checks that a pause of an hour ends when the probe is closed,
// even if the caller calls Round again and again.
func closeEndsThePause(s *session) {
	p := s.probe(s.f.Methods[0], 1)
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := p.Round(time.Hour); err != nil {
				ended <- err
				return
			}
		}
	}()
	require.NoError(s.t, p.Close(patience))
	require.ErrorIs(s.t, receiveInTime(s.t, "Round", ended), verbs.ErrClosed)
}

func nudgeEndsThePause(s *session) {
	p := s.probe(s.f.Methods[0], 1)
	ended := make(chan verbs.Round, 1)
	go func() {
		r, err := p.Round(time.Hour)
		if err == nil {
			ended <- r
		}
	}()
	p.Nudge()
	require.Equal(s.t, verbs.OutcomeCanceled, receiveInTime(s.t, "Round", ended).Outcome)
	require.Zero(s.t, s.counts(s.f.Methods[0]).Rounds)
	s.round(p)
	s.closeProbe(p)
	p.Nudge()
}

func aRoundWaitsForItsPause(s *session) {
	const pause = 500 * time.Millisecond // longer than an emulated machine may pause
	p := s.probe(s.f.Methods[0], 1)
	began := time.Now()
	r, err := p.Round(pause)
	require.NoError(s.t, err)
	require.Equal(s.t, verbs.OutcomeSuccess, r.Outcome)
	require.GreaterOrEqual(s.t, time.Since(began), pause)
	require.Less(s.t, r.Total, int64(pause), "the pause is not part of the round")
	s.closeProbe(p)
}

func closedProbe(s *session) {
	p := s.probe(s.f.Methods[0], 1)
	s.round(p)
	require.NoError(s.t, p.Close(patience))
	_, err := p.Round(0)
	require.ErrorIs(s.t, err, verbs.ErrClosed)
	require.ErrorIs(s.t, p.Close(patience), verbs.ErrClosed)
	_, err = s.dev.QueryPort(s.f.Port)
	require.NoError(s.t, err)
	next := s.probe(s.f.Methods[0], 1)
	s.round(next)
	require.NoError(s.t, next.Close(patience))
	require.EqualValues(s.t, 2, s.counts(s.f.Methods[0]).Rounds, "a recreated probe continues its series")
}

func closeProbeEndsRounds(s *session) {
	p := s.probe(s.f.Methods[0], 4)
	started, ended := keepProbing(p)
	receiveInTime(s.t, "the first round", started)
	require.NoError(s.t, callInTime(s.t, "Probe.Close", func() error { return p.Close(patience) }))
	require.ErrorIs(s.t, receiveInTime(s.t, "Round", ended), verbs.ErrClosed)
	s.requireAllAcked()
}

func reopenDevice(s *session) {
	require.NoError(s.t, s.close())
	again := openSession(s.t, s.f)
	require.Equal(s.t, s.dev.Attr().NodeGUID, again.dev.Attr().NodeGUID)
}
