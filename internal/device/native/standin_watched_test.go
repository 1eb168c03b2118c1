//go:build linux && cgo

package native_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/session"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/sys/status"
)

// watched watches the stand-in's device as a worker does, but at a faster pace than the
// default one. The number of calls per operation does not depend on the pace.
type watched struct {
	s    *subject
	p    standin.Profile
	m    *meter
	led  *ledger.Ledger
	stop context.CancelFunc
	pace time.Duration // between two rounds
	done chan error

	mu      sync.Mutex
	items   []verbs.Item
	rings   *verbs.Inbox
	chosen  verbs.ProbeItem   // the last of items
	found   []verbs.PortState // by the queries among items, without repetitions
	why     *status.End       // set when the watch has ended by itself
	changed chan struct{}
}

func (s *subject) watch(p standin.Profile) (*watched, error) {
	led, file, err := ledger.New("standin")
	if err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	pace := 10 * time.Millisecond
	if verbs.AddressHandleIsCommand(p.Module) {
		pace = time.Second // more handles a minute would be too many for it
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &watched{
		s: s, p: p, m: newMeter(s.backend("sys", "dev"), s.Control), led: led, rings: verbs.NewInbox(led), stop: stop, pace: pace,
		done: make(chan error, 1), changed: make(chan struct{}, 1),
	}
	o := verbs.Options{
		Device: "standin0", Ports: []int{1}, StateInterval: 50 * time.Millisecond,
		Probe: verbs.ProbeOptions{
			Interval: pace, Timeout: missed, Method: verbs.MethodAuto, Vectors: []int{0}, AckBatch: 1,
			GIDIndex: -1, PKeyIndex: -1,
		},
	}
	go func() {
		why, err := session.Run(ctx, w.m, led, o, w.handle)
		if err == nil {
			w.mu.Lock()
			w.why = &why
			w.mu.Unlock()
		}
		w.done <- err
	}()
	return w, nil
}

// handle stores copies of the items of a batch.
func (w *watched) handle(b verbs.Batch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep(b.Items)
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return nil
}

// keep stores copies of items and of the ledger's ring entries. The caller holds w.mu.
func (w *watched) keep(items []verbs.Item) {
	all, err := w.rings.Merge(items, clock.Monotonic())
	if err != nil {
		panic(err)
	}
	for _, it := range all {
		if it.Round != nil {
			round := *it.Round
			it.Round = &round
		}
		if it.Command != nil {
			command := *it.Command
			it.Command = &command
		}
		it.Run = nil // the ledger counts events
		w.items = append(w.items, it)
		if it.Probe != nil {
			w.chosen = *it.Probe
		}
		if r := it.Reading; r != nil && r.Err == "" && (len(w.found) == 0 || w.found[len(w.found)-1] != r.Attr.State) {
			w.found = append(w.found, r.Attr.State)
		}
	}
}

// seen returns the items after the first n.
func (w *watched) seen(n int) []verbs.Item {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep(nil)
	return append([]verbs.Item(nil), w.items[n:]...)
}

// await waits until reached returns true, for at most the time long.
func (w *watched) await(what string, reached func() bool) error {
	end := time.NewTimer(long)
	defer end.Stop()
	for !reached() {
		select {
		case <-w.changed:
		case <-time.After(5 * time.Millisecond): // the meter and the ledger signal no changes
		case <-end.C:
			return fmt.Errorf("%s: not seen within %v", what, long)
		}
	}
	return nil
}

func (w *watched) ended() *status.End {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}

// states returns the port states that queries have found, without repetitions.
func (w *watched) states() []verbs.PortState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.found)
}

// choice returns the last choice that was reported.
func (w *watched) choice() verbs.ProbeItem {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.chosen
}

// probing waits for a choice with a number above after, and then for some rounds, or for
// the next attempt if the choice found no method.
func (w *watched) probing(after int) (standin.Probing, error) {
	enough := 10
	if w.pace == time.Second {
		enough = 2
	}
	var c verbs.ProbeItem
	var rounds, futile work
	err := w.await("the port's probing", func() bool {
		c = w.choice()
		rounds, futile = w.m.found(after, c.Method), w.m.futile(after)
		return w.ended() != nil || rounds.n >= enough || c.Reason != "" && c.Method == verbs.MethodNone && futile.n > 0
	})
	if e := w.ended(); e != nil {
		err = fmt.Errorf("the watch has ended: %s", e.Message)
	}
	if err != nil {
		return standin.Probing{}, err
	}
	p := standin.Probing{Method: c.Method, Why: c.Reason}
	if c.Method != verbs.MethodNone {
		p.Round, err = rounds.each(w.p)
		return p, err
	}
	p.Attempt, err = futile.each(w.p)
	p.Attempt += futile.queries * w.p.Seen.Query
	return p, err
}

// events returns the ledger's counts of events by type and port, or nil while an event
// is not acknowledged.
func (w *watched) events() map[string]uint64 {
	var snap ledger.Contents
	w.led.CopyTo(&snap)
	counts := map[string]uint64{}
	for _, e := range snap.Events {
		if e.Acked != e.Read {
			return nil
		}
		counts[fmt.Sprint(verbs.EventType(e.Type), " of port ", e.Port)] += e.Read
	}
	return counts
}

// badRounds returns the outcomes of the rounds among items, other than success.
func badRounds(items []verbs.Item) map[string]bool {
	bad := map[string]bool{}
	for _, it := range items {
		if it.Round != nil && it.Round.Outcome != verbs.OutcomeSuccess {
			bad[it.Round.Outcome.String()] = true
		}
	}
	return bad
}

// end stops the watch, if it has not ended by itself, and closes the ledger.
func (w *watched) end() error {
	w.stop()
	err := <-w.done
	if errors.Is(err, context.Canceled) && !errors.Is(err, verbs.ErrStuck) {
		err = nil
	}
	return errors.Join(err, w.led.Close())
}
