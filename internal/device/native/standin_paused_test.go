//go:build linux && cgo

package native_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// doStoppedRound stops the whole process for a second during its first round, like a guest
// whose TSC continues while it is stopped (a KVM guest with the clocksource tsc).
func doStoppedRound(s *subject) error {
	p, err := s.openProbe(s.Method)
	if err != nil {
		return err
	}
	stopped := make(chan error, 1)
	go func() {
		for atomic.LoadInt32(&s.Cursor) == 0 { // the plan has not been asked what comes of the post
			<-time.After(time.Millisecond)
		}
		stopped <- exec.Command("/bin/sh", "-c", "kill -STOP $PPID; sleep 1; kill -CONT $PPID").Run()
	}()
	for i := range s.Rounds {
		r, err := p.Round(s.Pause)
		s.check(fmt.Sprint("round ", i+1), err)
		s.report.Rounds = append(s.report.Rounds, roundReport{Round: r, Usable: p.Usable()})
		if i == 0 {
			s.check("stop", <-stopped)
			s.EventDelayUS = 0
		}
	}
	s.readLedger()
	s.check("close probe", p.Close(long))
	s.check("close", s.dev.Close(long))
	return nil
}

func TestARoundDuringWhichTheHostWasPausedIsDisturbed(t *testing.T) {
	const timeout = 2 * time.Second
	for name, c := range map[string]struct {
		plan  string
		delay time.Duration
		wc    int32
		want  ledger.ProbeCounts
	}{
		"no completion": {plan: "-", want: ledger.ProbeCounts{Rounds: 2, Disturbed: 1, Successes: 1, Events: 1, Acked: 1}},
		"no event":      {plan: "c", want: ledger.ProbeCounts{Rounds: 2, Disturbed: 1, Successes: 1, Events: 1, Acked: 1}},
		"an event after the pause": {
			plan: "ce", delay: 1500 * time.Millisecond, want: ledger.ProbeCounts{Rounds: 2, Disturbed: 1, Successes: 1, Events: 2, Acked: 2},
		},
		"an event after the round": {
			plan: "ce", delay: 2 * timeout, want: ledger.ProbeCounts{Rounds: 2, Disturbed: 1, Successes: 1, Events: 2, Acked: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := mustCarryOut(t, order{
				Kind: "stopped round", Method: verbs.MethodRCWrite, Rounds: 2, Timeout: timeout, Plan: c.plan, EventDelay: c.delay,
				Pause: 3 * time.Second, GIDIndex: -1, PKeyIndex: -1,
			})
			require.Equal(t, []verbs.Outcome{verbs.OutcomeDisturbed, verbs.OutcomeSuccess}, roundOutcomes(r))
			require.True(t, r.Rounds[0].Usable)
			require.Zero(t, r.Rounds[0].Wake)
			require.Empty(t, r.Rounds[0].Status)
			require.Equal(t, c.want, r.Counts)
		})
	}
}

// gaining is a clock_gettime whose CLOCK_BOOTTIME gains a second with each reading, as if the host were suspended all the time.
const gaining = `
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t)
{
	static int readings;
	int r = syscall(SYS_clock_gettime, id, t);
	if (!r && id == CLOCK_BOOTTIME)
		t->tv_sec += __atomic_add_fetch(&readings, 1, __ATOMIC_RELAXED);
	return r;
}
`

func TestARoundDuringWhichTheHostWasSuspendedIsDisturbed(t *testing.T) {
	dir := t.TempDir()
	source, preloaded, program := filepath.Join(dir, "gaining.c"), filepath.Join(dir, "gaining.so"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(source, []byte(gaining), 0o600))
	out, err := exec.Command("cc", "-shared", "-fPIC", "-o", preloaded, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	exe, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nLD_PRELOAD=%s exec %s\n", preloaded, exe), 0o700))
	for _, m := range allMethods {
		t.Run(m.String(), func(t *testing.T) {
			o := order{Kind: "rounds", Method: m, Rounds: 3, Plan: "ce - ce ce", Timeout: missed, GIDIndex: -1, PKeyIndex: -1}
			r := carryOutWith(t, o, program, filepath.Dir(standInLibrary(t)))
			require.Empty(t, r.Errors)
			require.Equal(t, []verbs.Outcome{verbs.OutcomeDisturbed, verbs.OutcomeDisturbed, verbs.OutcomeDisturbed}, roundOutcomes(r))
			require.EqualValues(t, 3, r.Counts.Disturbed)
			require.Zero(t, r.Counts.LostCompletions+r.Counts.LostEvents+r.Counts.Late)
		})
	}
}
