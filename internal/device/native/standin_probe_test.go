//go:build linux && cgo

package native_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

var allMethods = []verbs.Method{verbs.MethodRCWrite, verbs.MethodUDSend, verbs.MethodFlush}

// missed is a deadline that is meant to pass. It is short to keep the tests fast.
const missed = 30 * time.Millisecond

// doRounds opens a probe, does the rounds and closes everything.
func doRounds(s *subject) error {
	p, err := s.openProbe(s.Method)
	if err != nil {
		return err
	}
	for i := range s.Rounds {
		r, err := p.Round(s.Pause)
		s.check(fmt.Sprint("round ", i+1), err)
		s.readLedger()
		s.report.Rounds = append(s.report.Rounds, roundReport{
			Round: r, Usable: p.Usable(), Unacked: s.report.Counts.Events - s.report.Counts.Acked,
		})
		if s.Stray == i+1 {
			s.check("stray event", s.stray())
		}
	}
	s.check("close probe", p.Close(long))
	s.check("close", s.dev.Close(long))
	s.readLedger()
	return nil
}

func TestARoundEndsAsWhatHappened(t *testing.T) {
	const success, bad, lostEvent, lost = verbs.OutcomeSuccess, verbs.OutcomeError, verbs.OutcomeLostEvent, verbs.OutcomeLostCompletion
	for _, c := range []struct {
		name, plan string
		datagrams  string // the plan of ud_send, if a round sends twice
		stray      int
		wc         int32
		postErr    int32
		outcomes   []verbs.Outcome
		status     string // of the first round
		counts     ledger.ProbeCounts
	}{
		{name: "all goes well", outcomes: []verbs.Outcome{success, success, success},
			counts: ledger.ProbeCounts{Rounds: 3, Successes: 3, Events: 3}},
		{name: "more rounds than any queue is deep", outcomes: make([]verbs.Outcome, 200),
			counts: ledger.ProbeCounts{Rounds: 200, Successes: 200, Events: 200}},
		{name: "the completion has a bad status", wc: 12, outcomes: []verbs.Outcome{bad}, status: "retry_exc_err",
			counts: ledger.ProbeCounts{Rounds: 1, Errors: 1, Events: 1}},
		{name: "the completion has a status without a name", wc: 99, outcomes: []verbs.Outcome{bad}, status: "unknown_99",
			counts: ledger.ProbeCounts{Rounds: 1, Errors: 1, Events: 1}},
		{name: "the post fails", plan: "x", postErr: 5, outcomes: []verbs.Outcome{bad}, status: "POST: input/output error",
			counts: ledger.ProbeCounts{Rounds: 1, Errors: 1}},
		{name: "the post fails with a negative errno", plan: "x", postErr: -5, outcomes: []verbs.Outcome{bad},
			status: "POST: input/output error", counts: ledger.ProbeCounts{Rounds: 1, Errors: 1}},
		{name: "an event is lost", plan: "c", outcomes: []verbs.Outcome{lostEvent, success}, status: "lost_event",
			counts: ledger.ProbeCounts{Rounds: 2, LostEvents: 1, Successes: 1, Events: 1}},
		{name: "a completion is lost", plan: "-", datagrams: "- -", outcomes: []verbs.Outcome{lost, success}, status: "lost_completion",
			counts: ledger.ProbeCounts{Rounds: 2, LostCompletions: 1, Successes: 1, Events: 1}},
		{name: "the event comes before the next round", plan: "c", stray: 1, outcomes: []verbs.Outcome{lostEvent, success},
			status: "lost_event", counts: ledger.ProbeCounts{Rounds: 2, LostEvents: 1, Successes: 1, Events: 2, Late: 1}},
		{name: "the event comes in the next round", plan: "c kEp", outcomes: []verbs.Outcome{lostEvent, success},
			status: "lost_event", counts: ledger.ProbeCounts{Rounds: 2, LostEvents: 1, Successes: 1, Events: 2, Late: 1}},
		{name: "the event comes with the next round's completion", plan: "c Ece", outcomes: []verbs.Outcome{lostEvent, success, success},
			status: "lost_event", counts: ledger.ProbeCounts{Rounds: 3, LostEvents: 1, Successes: 2, Events: 3, Late: 1}},
		{name: "the completion and its event come in the next round", plan: "k rEkp", datagrams: "k - rEkp", outcomes: []verbs.Outcome{lost, success},
			status: "lost_completion", counts: ledger.ProbeCounts{Rounds: 2, LostCompletions: 1, Successes: 1, Events: 2, Late: 1}},
		{name: "the completion comes in the next round and shares its event", plan: "k rce", datagrams: "k - rce", outcomes: []verbs.Outcome{lost, success},
			status: "lost_completion", counts: ledger.ProbeCounts{Rounds: 2, LostCompletions: 1, Successes: 1, Events: 1}},
		{name: "two rounds are given up and both events come", plan: "c c EkEp",
			outcomes: []verbs.Outcome{lostEvent, lostEvent, success, success}, status: "lost_event",
			counts: ledger.ProbeCounts{Rounds: 4, LostEvents: 2, Successes: 2, Events: 4, Late: 2}},
		{name: "an event comes without a completion", plan: "kEp", outcomes: []verbs.Outcome{success, success},
			counts: ledger.ProbeCounts{Rounds: 2, Successes: 2, Events: 3, Spurious: 1}},
		{name: "two events come for one completion", plan: "Ece", outcomes: []verbs.Outcome{success, success},
			counts: ledger.ProbeCounts{Rounds: 2, Successes: 2, Events: 3, Spurious: 1}},
		{name: "an event comes between rounds", stray: 1, outcomes: []verbs.Outcome{success, success},
			counts: ledger.ProbeCounts{Rounds: 2, Successes: 2, Events: 3, Spurious: 1}},
	} {
		for _, m := range allMethods {
			t.Run(c.name+"/"+m.String(), func(t *testing.T) {
				t.Parallel()
				plan, want := c.plan, c.counts
				if m == verbs.MethodUDSend && c.datagrams != "" {
					plan, want.Resent = c.datagrams, 1
				}
				o := order{Kind: "rounds", Method: m, Rounds: len(c.outcomes), Plan: plan, Stray: c.stray,
					WCStatus: c.wc, PostErr: c.postErr, GIDIndex: -1, PKeyIndex: -1}
				if strings.HasPrefix(c.status, "lost") {
					o.Timeout = missed
				}
				r := mustCarryOut(t, o)
				require.Equal(t, c.outcomes, roundOutcomes(r))
				require.Equal(t, strings.Replace(c.status, "POST", postVerb(m), 1), r.Rounds[0].Status)
				want.Acked = want.Events
				require.Equal(t, want, r.Counts)
				for _, round := range r.Rounds {
					requireTimes(t, round)
					require.Equal(t, round.Outcome != bad || m == verbs.MethodFlush, round.Usable)
				}
			})
		}
	}
}

func roundOutcomes(r report) []verbs.Outcome {
	var list []verbs.Outcome
	for _, round := range r.Rounds {
		list = append(list, round.Outcome)
	}
	return list
}

// postVerb returns the verb that starts a round.
func postVerb(m verbs.Method) string {
	if m == verbs.MethodFlush {
		return "ibv_modify_qp"
	}
	return "ibv_post_send"
}

// requireTimes compares the durations of a round with each other.
func requireTimes(t *testing.T, r roundReport) {
	t.Helper()
	if r.Outcome != verbs.OutcomeSuccess {
		return
	}
	require.Positive(t, r.Start)
	require.GreaterOrEqual(t, r.Wake, r.Get)
	require.GreaterOrEqual(t, r.Total, r.Wake+r.Arm+r.Drain)
	require.GreaterOrEqual(t, r.Hold, r.Ack)
	require.GreaterOrEqual(t, r.Hold, r.Arm+r.Drain+r.Ack)
}

func TestAFlushThatSucceedsIsAnError(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "rounds", Method: verbs.MethodFlush, Rounds: 1, WCStatus: -1})
	require.Equal(t, []verbs.Outcome{verbs.OutcomeError}, roundOutcomes(r))
	require.Equal(t, "success", r.Rounds[0].Status)
}

// calledVerbs returns the verbs of a trace in one line, without their arguments.
func calledVerbs(trace []string) string {
	var b strings.Builder
	b.WriteByte(' ')
	for _, line := range trace {
		name, _, _ := strings.Cut(line, " ")
		b.WriteString(name + " ")
	}
	return b.String()
}

func TestEventsAreAcknowledgedInBatchesAndAllOfThemBeforeTheEnd(t *testing.T) {
	for _, m := range allMethods {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			const batch = 4
			r := mustCarryOut(t, order{Kind: "rounds", Method: m, Rounds: 10, AckBatch: batch, GIDIndex: -1, PKeyIndex: -1})
			for i, round := range r.Rounds {
				require.Equal(t, uint64(i+1)%batch, round.Unacked)
				require.Equal(t, round.Unacked == 0, round.Ack > 0)
				require.Equal(t, round.Wake+round.Arm+round.Drain, round.Total)
			}
			require.EqualValues(t, 10, r.Counts.Acked)
			require.Equal(t, []string{"4", "4", "2"}, argumentValues(r.Trace, "ack_cq_events", "n"))
			require.Equal(t, []string{"0"}, argumentValues(r.Trace, "destroy_cq", "unacked")[:1])
		})
	}
}

// argumentValues returns the values of an argument in the calls of a verb.
func argumentValues(trace []string, verb, key string) []string {
	var list []string
	field := regexp.MustCompile(`\b` + key + `=(\S+)`)
	for _, line := range trace {
		if m := field.FindStringSubmatch(line); m != nil && strings.HasPrefix(line, verb) {
			list = append(list, m[1])
		}
	}
	return list
}

func TestTheQueuePairIsConnectedToItself(t *testing.T) {
	for _, c := range []struct {
		name           string
		link           verbs.LinkLayer
		noLayer, grh   bool
		gid, pkey      int
		wantGID        string // index, and the last byte of the address
		wantEnd        string
		wantPKey, dlid string
		global         string
	}{
		{"RoCE, chosen", verbs.LinkEthernet, false, false, -1, -1, "1", "2", "1", "17", "1"},
		{"RoCE, configured", verbs.LinkEthernet, false, false, 0, 2, "0", "1", "2", "17", "1"},
		{"InfiniBand", verbs.LinkInfiniBand, false, false, -1, -1, "0", "0", "1", "17", "0"},
		{"InfiniBand, configured", verbs.LinkInfiniBand, false, false, 1, -1, "1", "2", "1", "17", "1"},
		{"InfiniBand that needs a GRH", verbs.LinkInfiniBand, false, true, -1, -1, "0", "1", "1", "17", "1"},
		{"a link layer that is unspecified", 0, true, false, -1, -1, "0", "1", "1", "17", "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := order{Kind: "rounds", Method: verbs.MethodRCWrite, Rounds: 1, LinkLayer: c.link, NoLayer: c.noLayer, NeedsGRH: c.grh,
				GIDIndex: c.gid, PKeyIndex: c.pkey}
			trace := mustCarryOut(t, o).Trace
			own := argumentValues(trace, "create_qp", "qp_num")
			for key, want := range map[string]string{
				"dest_qp_num": own[0], "sgid_index": c.wantGID, "gid_end": c.wantEnd, "dlid": c.dlid, "global": c.global,
				"path_mtu": "1", "port": "1", "hop_limit": "64",
			} {
				require.Equal(t, []string{want}, argumentValues(trace, "modify_qp to=rtr", key), key)
			}
			require.Equal(t, []string{c.wantPKey}, argumentValues(trace, "modify_qp to=init", "pkey_index"))
			require.Equal(t, []string{"2"}, argumentValues(trace, "create_cq", "vector"))

			o.Method = verbs.MethodUDSend
			trace = mustCarryOut(t, o).Trace
			handles := 1
			if c.link == verbs.LinkEthernet {
				handles = 2 // one to check whether the device has any, one for the round
				if c.gid < 0 {
					c.wantGID, c.wantEnd = "3", "4" // held so briefly that it may be that of a host address
				}
			}
			require.Equal(t, slices.Repeat([]string{c.wantGID}, handles), argumentValues(trace, "create_ah", "sgid_index"))
			require.Equal(t, slices.Repeat([]string{c.wantEnd}, handles), argumentValues(trace, "create_ah", "gid_end"))
			require.Equal(t, slices.Repeat([]string{c.global}, handles), argumentValues(trace, "create_ah", "global"))
			require.Equal(t, []string{c.wantPKey}, argumentValues(trace, "modify_qp to=init", "pkey_index"))
			require.Equal(t, []string{"0x11111111"}, argumentValues(trace, "modify_qp to=init", "qkey"))
		})
	}
}

func TestTheDevicesOwnRetriesEndBeforeTheRoundsDeadline(t *testing.T) {
	for _, timeout := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second, time.Minute} {
		t.Run(timeout.String(), func(t *testing.T) {
			t.Parallel()
			trace := carryOut(t, order{Kind: "rounds", Method: verbs.MethodRCWrite, Timeout: timeout, GIDIndex: -1, PKeyIndex: -1}).Trace
			exponent, err := strconv.Atoi(argumentValues(trace, "modify_qp to=rts", "timeout")[0])
			require.NoError(t, err)
			retries, err := strconv.Atoi(argumentValues(trace, "modify_qp to=rts", "retry_cnt")[0])
			require.NoError(t, err)
			require.Positive(t, exponent, "0 means for ever")
			require.LessOrEqual(t, exponent, 31)
			require.Positive(t, retries)
			require.Less(t, time.Duration(4096<<exponent)*time.Duration(retries+1), timeout)
			require.Equal(t, []string{"0"}, argumentValues(trace, "modify_qp to=rts", "rnr_retry"))
		})
	}
}

// doFlushWithoutQueuePairs does a round that succeeds, and one for which no queue pair
// can be created.
func doFlushWithoutQueuePairs(s *subject) error {
	p, err := s.openProbe(verbs.MethodFlush)
	if err != nil {
		return err
	}
	_, err = p.Round(0)
	s.check("round", err)
	s.FailErrno, s.FailAlways, s.FailCall = int32(unix.ENOMEM), 1, int32(ledger.CallCreateQP)
	begun := time.Now()
	r, err := p.Round(missed)
	s.check("round", err)
	s.report.Took = time.Since(begun)
	s.report.Rounds = []roundReport{{Round: r, Usable: p.Usable()}}
	s.check("close probe", p.Close(long))
	s.check("close", s.dev.Close(long))
	return nil
}

func TestFailedFlushRoundWaitsForItsPause(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "flush without queue pairs", GIDIndex: -1, PKeyIndex: -1})
	require.Equal(t, []verbs.Outcome{verbs.OutcomeError}, roundOutcomes(r))
	require.Equal(t, "ibv_create_qp: cannot allocate memory", r.Rounds[0].Status)
	require.GreaterOrEqual(t, r.Took, missed)
	require.False(t, r.Rounds[0].Usable, "otherwise the prober would not recreate it")
}

// doNudgedFlush ends the pause of a round whose queue pair cannot be destroyed.
func doNudgedFlush(s *subject) error {
	p, err := s.openProbe(verbs.MethodFlush)
	if err != nil {
		return err
	}
	p.Nudge()
	s.failingRound(p, long, ledger.CallDestroyQP, 0)
	return nil
}

// doFlushAfterNudge does a round whose pause Nudge ends, and two more.
func doFlushAfterNudge(s *subject) error {
	p, err := s.openProbe(verbs.MethodFlush)
	if err != nil {
		return err
	}
	p.Nudge()
	for range 3 {
		r, err := p.Round(missed)
		s.check("round", err)
		s.report.Rounds = append(s.report.Rounds, roundReport{Round: r})
	}
	s.check("close probe", p.Close(long))
	s.check("close", s.dev.Close(long))
	return nil
}

func TestNudgedFlushProbeKeepsItsQueuePair(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "flush after nudge", GIDIndex: -1, PKeyIndex: -1})
	require.Equal(t, []verbs.Outcome{verbs.OutcomeCanceled, verbs.OutcomeSuccess, verbs.OutcomeSuccess}, roundOutcomes(r))
	require.Equal(t, 2, strings.Count(calledVerbs(r.Trace), " create_qp "))
}

// failingRound does the last round of a probe and closes everything. In that round a call
// fails after it has succeeded well times.
func (s *subject) failingRound(p verbs.Probe, pause time.Duration, call ledger.Call, well int32) {
	s.FailErrno, s.FailStyle, s.FailSkip, s.FailCall = int32(unix.EIO), standin.StyleManual, well, int32(call)
	r, err := p.Round(pause)
	s.check("round", err)
	s.FailCall = 0
	s.report.Rounds = []roundReport{{Round: r}}
	s.readLedger()
	s.check("close probe", p.Close(long))
	s.check("close", s.dev.Close(long))
}

func TestARoundThatIsCanceledIsNoErrorWhateverFailsAfterIt(t *testing.T) {
	r := carryOut(t, order{Kind: "nudged flush", GIDIndex: -1, PKeyIndex: -1})
	require.Equal(t, []verbs.Outcome{verbs.OutcomeCanceled}, roundOutcomes(r))
	require.Equal(t, ledger.ProbeCounts{}, r.Counts)
}

// doStrayAndFailure does a round in which an event of the previous round comes, after
// which the channel fails.
func doStrayAndFailure(s *subject) error {
	p, err := s.openProbe(verbs.MethodRCWrite)
	if err != nil {
		return err
	}
	_, err = p.Round(0)
	s.check("round", err)
	// The first call finds the channel empty before the round, the second reads the event.
	s.failingRound(p, 0, ledger.CallGetCQEvent, 2)
	return nil
}

func TestARoundThatFailsHasNoTimesOfAnotherRoundsEvent(t *testing.T) {
	r := carryOut(t, order{
		Kind: "stray and failure", Plan: "c kE", Timeout: missed, GIDIndex: -1, PKeyIndex: -1,
	})
	require.Equal(t, []verbs.Outcome{verbs.OutcomeError}, roundOutcomes(r))
	require.EqualValues(t, 1, r.Counts.Late)
	require.Zero(t, r.Rounds[0].Wake)
	require.Zero(t, r.Rounds[0].Hold)
	require.Zero(t, r.Rounds[0].Total)
}
