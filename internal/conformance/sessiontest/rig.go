// Package sessiontest runs a session on the simulator inside a synctest bubble, in which an hour takes no real time.
package sessiontest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/verbstest"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/simulated/devices"
	"rdma_events/internal/sys/status"
)

// Run runs a session, as session.Run does with the parts of a test.
type Run func(context.Context, verbs.Backend, *ledger.Ledger, verbs.Options, func(verbs.Batch) error) (status.End, error)

// Rig is a session that watches the device sim0, and collects the items that it sends.
type Rig struct {
	World       *devices.World
	Ledger      *ledger.Ledger
	Options     verbs.Options
	Wrap        func(verbs.Backend) verbs.Backend   // wraps the backend; nil: not wrapped
	WaitRemoved func(context.Context, string) error // nil: the backend is no session.RemovalWatcher

	Stop context.CancelFunc // asks the session to end; set by Start
	Done chan struct{}      // closed when the session has ended; Why and Err are then set
	Why  status.End
	Err  error

	t   *testing.T
	run Run

	mu    sync.Mutex
	rings *verbs.Inbox
	items []verbs.Item
}

// New returns a Rig whose simulator has a profile and, unless scenario is "", a scenario.
func New(t *testing.T, run Run, profile, scenario string) *Rig {
	t.Helper()
	return NewWithVectors(t, run, profile, scenario, 0)
}

// NewWithVectors is like New, but each simulated device has this number of completion vectors. 0 stands for the simulator's default.
func NewWithVectors(t *testing.T, run Run, profile, scenario string, vectors int) *Rig {
	t.Helper()
	if scenario != "" {
		path := filepath.Join(t.TempDir(), "scenario.toml")
		require.NoError(t, os.WriteFile(path, []byte(scenario), 0o600))
		scenario = path
	}
	w, err := devices.Load(devices.Options{Profile: profile, Scenario: scenario, Seed: 1, Vectors: vectors,
		Clock: func() int64 { return time.Now().UnixNano() }})
	require.NoError(t, err)
	led, f, err := ledger.New("test")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	t.Cleanup(func() { require.NoError(t, led.Close()) })
	return &Rig{t: t, run: run, World: w, Ledger: led, rings: verbs.NewInbox(led), Done: make(chan struct{}), Options: verbs.Options{
		Device: "sim0", StateInterval: 5 * time.Second,
		Probe: verbs.ProbeOptions{Interval: time.Second, Timeout: 500 * time.Millisecond, Method: verbs.MethodAuto,
			Vectors: []int{0}, AckBatch: 1, GIDIndex: -1, PKeyIndex: -1},
	}}
}

type removable struct {
	verbs.Backend
	wait func(context.Context, string) error
}

func (r removable) WaitRemoved(ctx context.Context, device string) error { return r.wait(ctx, device) }

// Start runs the session until the end of the test. It passes batches to send; nil stands for Collect.
func (r *Rig) Start(send func(verbs.Batch) error) {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.Stop = cancel
	b := verbstest.Track(r.t, devices.New(r.World))
	if r.Wrap != nil {
		b = r.Wrap(b)
	}
	if r.WaitRemoved != nil {
		b = removable{b, r.WaitRemoved}
	}
	if send == nil {
		send = r.Collect
	}
	go func() {
		defer close(r.Done)
		r.Why, r.Err = r.run(ctx, b, r.Ledger, r.Options, send)
	}()
	r.t.Cleanup(func() {
		cancel()
		<-r.Done
	})
}

// Collect stores the items of a batch.
func (r *Rig) Collect(b verbs.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addItems(b.Items)
	return nil
}

// addItems stores items, merged with the events and rounds in the rings. The caller holds r.mu.
func (r *Rig) addItems(items []verbs.Item) {
	all, err := r.rings.Merge(items, time.Now().UnixNano())
	require.NoError(r.t, err)
	for _, it := range all {
		r.items = append(r.items, copyItem(it))
	}
}

// copyItem returns a copy of an item that stays valid after the item's batch.
func copyItem(it verbs.Item) verbs.Item {
	if it.Run != nil {
		run := *it.Run
		it.Run = &run
	}
	if it.Round != nil {
		round := *it.Round
		it.Round = &round
	}
	if it.Command != nil {
		command := *it.Command
		it.Command = &command
	}
	if it.FabricFacts != nil {
		facts := *it.FabricFacts
		facts.Facts = slices.Clone(facts.Facts)
		it.FabricFacts = &facts
	}
	return it
}

// After waits for d and returns the items sent since the last call.
func (r *Rig) After(d time.Duration) []verbs.Item {
	time.Sleep(d)
	synctest.Wait()
	return r.Sent()
}

// Sent returns the items sent or written into the rings since the last call.
func (r *Rig) Sent() []verbs.Item {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addItems(nil)
	items := r.items
	r.items = nil
	return items
}

// Counters returns the current contents of the ledger.
func (r *Rig) Counters() ledger.Contents {
	var s ledger.Contents
	r.Ledger.CopyTo(&s)
	return s
}

// Pick returns the member of each item that has it.
func Pick[T any](items []verbs.Item, member func(verbs.Item) *T) []T {
	var found []T
	for _, it := range items {
		if v := member(it); v != nil {
			found = append(found, *v)
		}
	}
	return found
}

// Readings returns the Readings among items.
func Readings(items []verbs.Item) []verbs.Reading {
	return Pick(items, func(i verbs.Item) *verbs.Reading { return i.Reading })
}
