package inspect

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
)

// watcher has the reports of a worker. It returns err when ctx has ended.
type watcher struct {
	batches []verbs.Batch
	end     status.End
	err     error
}

func (w watcher) Watch(ctx context.Context, _ verbs.Options, h worker.Handler) error {
	h.Started(nil, nil)
	for _, b := range w.batches {
		if ctx.Err() == nil {
			h.Batch(b, status.Status{})
		}
	}
	h.Ended(w.end)
	<-ctx.Done()
	return w.err
}

func newBatch(items ...verbs.Item) verbs.Batch { return verbs.Batch{Items: items} }

func TestTrialEndsWhenEachPortHasAnswered(t *testing.T) {
	round := newBatch(verbs.Item{Round: &verbs.RoundItem{ProbeKey: verbs.ProbeKey{Port: 2}, Round: verbs.Round{Outcome: verbs.OutcomeSuccess}}})
	w := watcher{batches: []verbs.Batch{newBatch(
		verbs.Item{Opened: &verbs.DeviceAttr{Ports: 2}},
		verbs.Item{Command: &verbs.Command{Port: 1, Call: verbs.CommandQueryPort, Status: "EINVAL"}},
		verbs.Item{Probe: &verbs.ProbeItem{ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodNone}, Reason: "the port is not active"}},
		verbs.Item{Probe: &verbs.ProbeItem{ProbeKey: verbs.ProbeKey{Port: 2, Method: verbs.MethodRCWrite}}},
	)}, end: status.End{Reason: status.ReasonOK}}
	for range trialRounds + 3 {
		w.batches = append(w.batches, round)
	}
	seen := Observe(t.Context(), w, verbs.Options{}, func(o *Observation) bool {
		trial := trialFrom(o)
		return trial.isComplete()
	})
	trial := trialFrom(seen)
	require.True(t, trial.Opened)
	require.Empty(t, trial.Why)
	require.Equal(t, PortTrial{Refused: "the port is not active", Query: "EINVAL"}, trial.Ports[1])
	require.Len(t, trial.Ports[2].Rounds, trialRounds)
	require.Empty(t, trial.Ports[2].Refused)
	require.Equal(t, "the port is not active", seen.Refusal())
}

func TestWorkerThatEndsSaysWhy(t *testing.T) {
	end := status.End{Reason: status.ReasonNoPermission, Message: "permission denied"}
	seen := Observe(t.Context(), watcher{end: end}, verbs.Options{}, func(*Observation) bool { return true })
	require.Nil(t, seen.Attr)
	require.False(t, seen.Stuck)
	trial := trialFrom(seen)
	require.Equal(t, Trial{Why: end.Message, Reason: end.Reason, Ports: map[int]PortTrial{}}, trial)
}

func TestWorkerThatCannotBeKilledIsStuck(t *testing.T) {
	err := fmt.Errorf("end worker: %w", process.ErrAbandoned)
	seen := Observe(t.Context(), watcher{end: status.End{Reason: status.ReasonOK}, err: err}, verbs.Options{}, nil)
	require.True(t, seen.Stuck)
	require.Equal(t, status.ReasonStuck, seen.Reason)
	require.Equal(t, err.Error(), seen.Why)
}
