package endpoint

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/verdict"
)

// silentRun is how long a Fabric runs between two reports while an echo is missing. A verdict begins at the time of a report, so
// short runs let it begin on time.
const silentRun = 50 * time.Millisecond

// silence decides how soon facts are sent while a pair is without an echo. Whether an echo is missing is decided by the Fabric, by the
// rule of package verdict, and silence hears of it as FabricMissing. It holds which pairs are without an echo, and since when.
type silence [verbs.MaxFabricPairs]struct {
	session uint64
	since   int64 // CLOCK_MONOTONIC ns when an echo was missing first; 0: none has been since the last echo
}

// note takes account of facts. A second FabricMissing of a session makes its silence no younger.
func (s *silence) note(facts []verbs.FabricFact) {
	for i := range facts {
		fact := &facts[i]
		if fact.Pair < 0 || fact.Pair >= len(s) {
			continue
		}
		switch pair := &s[fact.Pair]; fact.Kind {
		case verbs.FabricMissing:
			if pair.since == 0 || pair.session != fact.Session {
				pair.session, pair.since = fact.Session, fact.At
			}
		case verbs.FabricEcho:
			pair.since = 0
		}
	}
}

// recent reports whether an echo is missing at a time and has been for less than verdict.VerdictsWithin.
func (s *silence) recent(at int64) bool {
	for i := range s {
		if since := s[i].since; since != 0 && at-since < verdict.VerdictsWithin {
			return true
		}
	}
	return false
}

// lasting returns how long the next Run lasts.
func (s *silence) lasting(at int64) time.Duration {
	if s.recent(at) {
		return silentRun
	}
	return fabricRun
}
