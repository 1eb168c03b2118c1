// Package sessiontest runs a session on the simulator inside a synctest bubble, where an hour passes at once.
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

// Run is session.Run with the parts of a test.
type Run func(context.Context, verbs.Backend, *ledger.Ledger, verbs.Options, func(verbs.Batch) error) (status.End, error)

// Rig is a session that watches the device sim0 and keeps what it sends.
type Rig struct {
	World       *devices.World
	Ledger      *ledger.Ledger
	Options     verbs.Options
	Wrap        func(verbs.Backend) verbs.Backend   // nil: the backend stays as it is
	WaitRemoved func(context.Context, string) error // nil: the backend has none

	Stop context.CancelFunc // asks the session to end, once it has started
	Done chan struct{}      // closed when it has ended, with Why and Err
	Why  status.End
	Err  error

	t   *testing.T
	run Run

	mu    sync.Mutex
	rings *verbs.Inbox
	items []verbs.Item
}

// New returns a Rig whose simulator has a profile and, unless it is "", a scenario.
func New(t *testing.T, run Run, profile, scenario string) *Rig {
	t.Helper()
	if scenario != "" {
		path := filepath.Join(t.TempDir(), "scenario.toml")
		require.NoError(t, os.WriteFile(path, []byte(scenario), 0o600))
		scenario = path
	}
	w, err := devices.Load(devices.Options{Profile: profile, Scenario: scenario, Seed: 1,
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

// Start runs the session until the test's end. send nil stands for Collect.
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

// Collect keeps the items of a batch.
func (r *Rig) Collect(b verbs.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keepItems(b.Items)
	return nil
}

// keepItems keeps items, and the events and rounds that came before them or are in the rings now. The caller holds r.mu.
func (r *Rig) keepItems(items []verbs.Item) {
	all, err := r.rings.Merge(items, time.Now().UnixNano())
	require.NoError(r.t, err)
	for _, it := range all {
		r.items = append(r.items, kept(it))
	}
}

// kept returns a copy of an item that stays valid after its batch.
func kept(it verbs.Item) verbs.Item {
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

// After waits for d and returns the items that were sent since the call before.
func (r *Rig) After(d time.Duration) []verbs.Item {
	time.Sleep(d)
	synctest.Wait()
	return r.Sent()
}

// Sent returns the items that were sent or written into the rings since the call before.
func (r *Rig) Sent() []verbs.Item {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keepItems(nil)
	items := r.items
	r.items = nil
	return items
}

// Counters returns the current values of the ledger.
func (r *Rig) Counters() ledger.Contents {
	var s ledger.Contents
	r.Ledger.CopyTo(&s)
	return s
}

// Pick returns the items that have a member.
func Pick[T any](items []verbs.Item, member func(verbs.Item) *T) []T {
	var found []T
	for _, it := range items {
		if v := member(it); v != nil {
			found = append(found, *v)
		}
	}
	return found
}

// Readings returns the answers to queries of ports among items.
func Readings(items []verbs.Item) []verbs.Reading {
	return Pick(items, func(i verbs.Item) *verbs.Reading { return i.Reading })
}
