package endpoint

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/verdict"
)

// silentRunTime is the time for which a Fabric runs between two reports while an echo is missing. Verdicts change only at the time of a
// report, so short runs let them begin on time.
const silentRunTime = 50 * time.Millisecond

// silence decides how often facts are sent while an echo of a pair is missing. The Fabric decides by the rule of package verdict whether an
// echo is missing, and reports that as a fact of kind FabricMissing. silence stores since when echoes of each pair are missing.
type silence [verbs.MaxFabricPairs]struct {
	session uint64
	since   int64 // time of the first missing echo, CLOCK_MONOTONIC ns; 0: none is missing since the last echo
}

// record updates the silence of all pairs by facts. Only the first FabricMissing after an echo sets the start of a silence.
func (s *silence) record(facts []verbs.FabricFact) {
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

// isRecent reports whether, at time at, an echo has been missing for less than verdict.VerdictsWithin.
func (s *silence) isRecent(at int64) bool {
	for i := range s {
		if since := s[i].since; since != 0 && at-since < verdict.VerdictsWithin {
			return true
		}
	}
	return false
}

// nextRunTime returns the duration of the next Run.
func (s *silence) nextRunTime(at int64) time.Duration {
	if s.isRecent(at) {
		return silentRunTime
	}
	return runTime
}
