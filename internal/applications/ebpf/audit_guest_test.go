//go:build guest

package ebpf

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
)

// Audited returns a Source that compares all maps at each Next with their content at the previous Next. If the board's count of changes has
// not changed, the maps must not have changed either.
func Audited(t testing.TB, s trace.Source) trace.Source {
	return &audit{source: s.(*source), t: t}
}

// MakePruningDue makes the next call of Next delete the entries of ended threads, which otherwise happens once an hour.
func MakePruningDue(s trace.Source) { s.(*audit).lastPrune -= int64(pruneEvery) }

// ThreadEntries returns the number of entries in the maps whose keys are threads.
func ThreadEntries(t testing.TB, s trace.Source) (n int) {
	p := s.(*audit).p
	require.NoError(t, forEach(p.reads, func(uint64, *traceRead) { n++ }))
	require.NoError(t, forEach(p.numbers, func(uint32, *uint32) { n++ }))
	return n
}

type audit struct {
	*source
	t       testing.TB
	last    *contents
	suspect string // difference at the previous Next that the count had not announced
}

// contents has the contents of the maps that a tracer reads.
type contents struct {
	changes uint64
	apps    map[traceProcess]traceApp
	queues  map[uint64]traceQueue
	others  map[uint32]traceApp
	waits   map[uint32]traceWait
	ring    int // bytes of records
}

// Next implements trace.Source.
func (a *audit) Next(ctx context.Context) (*trace.Update, error) {
	snap, err := a.source.Next(ctx)
	if a.end == nil { // after the end the maps are closed
		a.compare()
	}
	return snap, err
}

// compare compares the maps with their previous contents. A program may have made a change and not yet incremented the count, so the count
// may change until the next comparison: a program takes microseconds.
func (a *audit) compare() {
	now, err := a.readAll()
	switch {
	case err != nil:
		a.t.Errorf("read all maps: %v", err)
		return
	case now == nil:
		return // the maps change all the time
	case a.last == nil || now.changes != a.last.changes:
		a.last, a.suspect = now, ""
		return
	case a.suspect != "":
		a.t.Errorf("a program has changed %s and not the count of changes", a.suspect)
	}
	a.suspect = now.difference(a.last)
}

// readAll reads all maps while the count of changes does not change. It returns nil if it does not succeed.
func (a *audit) readAll() (*contents, error) {
	for range 10 {
		c := &contents{
			changes: a.board.readWords().Changes,
			apps:    map[traceProcess]traceApp{}, queues: map[uint64]traceQueue{},
			others: map[uint32]traceApp{}, waits: map[uint32]traceWait{},
		}
		if err := forEach(a.p.apps, func(k traceProcess, v *traceApp) { c.apps[k] = *v }); err != nil {
			return nil, err
		}
		if err := forEach(a.p.queues, func(k uint64, v *traceQueue) { c.queues[k] = *v }); err != nil {
			return nil, err
		}
		if err := forEach(a.p.others, func(k uint32, v *traceApp) { c.others[k] = *v }); err != nil {
			return nil, err
		}
		if err := forEach(a.p.waits, func(k uint32, v *traceWait) { c.waits[k] = *v }); err != nil {
			return nil, err
		}
		c.ring = a.records.AvailableBytes()
		if a.board.readWords().Changes == c.changes {
			return c, nil
		}
	}
	return nil, nil
}

// difference returns the name of the first map that differs. It ignores deleted processes and threads: the tracer deletes both, and a
// program deletes threads, which needs no announcement because the tracer checks every thread each second.
func (c *contents) difference(was *contents) string {
	switch {
	case !isPartOf(c.apps, was.apps):
		return fmt.Sprintf("apps (%d entries, was %d)", len(c.apps), len(was.apps))
	case !isPartOf(c.waits, was.waits):
		return fmt.Sprintf("waits (%d entries, was %d)", len(c.waits), len(was.waits))
	case !maps.Equal(c.queues, was.queues):
		return fmt.Sprintf("queues (%d entries, was %d)", len(c.queues), len(was.queues))
	case !maps.Equal(c.others, was.others):
		return "others"
	case c.ring != was.ring:
		return fmt.Sprintf("ring (%d bytes, was %d)", c.ring, was.ring)
	}
	return ""
}

func isPartOf[K, V comparable](part, whole map[K]V) bool {
	for k, v := range part {
		if was, ok := whole[k]; !ok || was != v {
			return false
		}
	}
	return true
}
