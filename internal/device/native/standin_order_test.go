//go:build linux && cgo

package native_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// These tests check the order of a round's calls. It determines which events a device
// raises, and to which round an event is assigned.

func TestQueueIsDrainedBeforeAndAfterTheArm(t *testing.T) {
	for _, m := range allMethods {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			r := mustCarryOut(t, order{Kind: "rounds", Method: m, Rounds: 5, GIDIndex: -1, PKeyIndex: -1, Plan: "ce Ece kEp"})
			verbs := calledVerbs(r.Trace)
			events := strings.Count(verbs, " get_cq_event ")
			require.GreaterOrEqual(t, events, 5)
			cycle := regexp.MustCompile(` get_cq_event( poll_cq)+ req_notify_cq( poll_cq)+ ack_cq_events`)
			require.Len(t, cycle.FindAllString(verbs, -1), events, "in %s", verbs)
			require.Less(t, strings.Index(verbs, " req_notify_cq "), strings.Index(verbs, " get_cq_event "))
			require.Equal(t, events+1, strings.Count(verbs, " req_notify_cq "), "one per event and one before the first round")
			for _, line := range r.Trace {
				if strings.HasPrefix(line, "req_notify_cq") {
					require.Equal(t, "req_notify_cq solicited_only=0", line)
				}
			}
		})
	}
}

// interrupt is the time from a completion to its event in the tests that set one.
const interrupt = 2 * time.Millisecond

// If a completion were announced twice, the second event would be in the channel when the
// next round posts, and that round would wake up without an interrupt.
func TestRoundHasOneEventHoweverArmsWork(t *testing.T) {
	for _, m := range allMethods {
		for name, arm := range map[string]int32{"by doorbell": standin.ArmNever, "by consumer index": standin.ArmByIndex} {
			t.Run(m.String()+"/"+name, func(t *testing.T) {
				t.Parallel()
				const n = 20
				r := mustCarryOut(t, order{
					Kind: "rounds", Method: m, Rounds: n, Pause: 2 * interrupt, Arm: arm, EventDelay: interrupt,
					GIDIndex: -1, PKeyIndex: -1,
				})
				require.Equal(t, ledger.ProbeCounts{Rounds: n, Successes: n, Events: n, Acked: n}, r.Counts)
				for _, round := range r.Rounds {
					require.GreaterOrEqual(t, time.Duration(round.Wake), interrupt)
				}
			})
		}
	}
}

// Some providers arm only in the next poll (bnxt_re up to rdma-core 45, ionic). Here an
// event is lost once, and its queue is no longer armed.
func TestLostEventIsCountedOnceHoweverArmsWork(t *testing.T) {
	for name, arm := range map[string]int32{
		"by doorbell": standin.ArmNever, "by consumer index": standin.ArmByIndex, "by the next poll": standin.ArmAtPoll,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := mustCarryOut(t, order{
				Kind: "rounds", Method: verbs.MethodRCWrite, Rounds: 3, Plan: "ce cl ce", Arm: arm, Timeout: missed,
				GIDIndex: -1, PKeyIndex: -1,
			})
			require.Equal(t, []verbs.Outcome{verbs.OutcomeSuccess, verbs.OutcomeLostEvent, verbs.OutcomeSuccess}, roundOutcomes(r))
			require.Equal(t, ledger.ProbeCounts{Rounds: 3, Successes: 2, LostEvents: 1, Events: 2, Acked: 2}, r.Counts)
		})
	}
}

// doSlowCommands does flush rounds, each of which is four commands, with slow commands.
func doSlowCommands(s *subject) error {
	p, _ := standin.FindProfile("irdma")
	s.Apply(p)
	s.CommandUS = int32(interrupt.Microseconds())
	return doRounds(s)
}

func TestSlowCommandsFailNoRound(t *testing.T) {
	const n = 5
	r := mustCarryOut(t, order{Kind: "slow commands", Method: verbs.MethodFlush, Rounds: n, GIDIndex: -1, PKeyIndex: -1})
	require.Equal(t, ledger.ProbeCounts{Rounds: n, Successes: n, Events: n, Acked: n}, r.Counts)
	for _, round := range r.Rounds {
		require.GreaterOrEqual(t, time.Duration(round.Wake), interrupt, "the command that starts the flush is part of it")
	}
}

// doLateEvent gives up a round. Its event then comes in the pause before the next round.
func doLateEvent(s *subject) error {
	p, err := s.openProbe(s.Method)
	if err != nil {
		return err
	}
	s.EventDelayUS = int32((2 * s.Timeout).Microseconds())
	for _, pause := range []time.Duration{0, 500 * time.Millisecond} {
		r, err := p.Round(pause)
		s.check("round", err)
		s.report.Rounds = append(s.report.Rounds, roundReport{Round: r})
		s.EventDelayUS = int32(interrupt.Microseconds())
	}
	s.readLedger()
	s.check("close probe", p.Close(long))
	s.check("close", s.dev.Close(long))
	return nil
}

func TestLateEventInThePauseIsNoWakeUp(t *testing.T) {
	for _, m := range allMethods {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			r := mustCarryOut(t, order{Kind: "late event", Method: m, Timeout: 5 * missed, GIDIndex: -1, PKeyIndex: -1})
			require.Equal(t, []verbs.Outcome{verbs.OutcomeLostEvent, verbs.OutcomeSuccess}, roundOutcomes(r))
			require.GreaterOrEqual(t, time.Duration(r.Rounds[1].Wake), interrupt)
			require.Equal(t, ledger.ProbeCounts{Rounds: 2, LostEvents: 1, Successes: 1, Events: 2, Acked: 2, Late: 1}, r.Counts)
		})
	}
}

func TestEndlessEventsPutNoDeadlineOff(t *testing.T) {
	r := mustCarryOut(t, order{
		Kind: "rounds", Method: verbs.MethodRCWrite, Rounds: 1, Plan: "-", Arm: standin.ArmAlways, Timeout: missed,
		GIDIndex: -1, PKeyIndex: -1,
	})
	require.Equal(t, []verbs.Outcome{verbs.OutcomeLostCompletion}, roundOutcomes(r))
	require.Equal(t, r.Counts.Events, r.Counts.Acked)
}

// doEndlessEvents closes the device while a round reads one event after another.
func doEndlessEvents(s *subject) error {
	p, err := s.openProbe(verbs.MethodRCWrite)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		_, err := p.Round(0)
		ended <- err
	}()
	for s.report.Counts.Events < 100 {
		s.readLedger()
	}
	s.check("close", s.dev.Close(long))
	s.check("round", <-ended)
	return nil
}

func TestEndlessEventsPutNoCloseOff(t *testing.T) {
	r := carryOut(t, order{Kind: "endless events", Plan: "-", Arm: standin.ArmAlways, GIDIndex: -1, PKeyIndex: -1})
	require.Empty(t, r.Violation)
	require.Len(t, r.Errors, 1)
	require.Equal(t, []string{"closed"}, r.Errors["round"].Is)
}
