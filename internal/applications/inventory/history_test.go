package inventory

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// life is a random history of processes and tracers. A tracer sees what a kernel would let it see: events since its start, events that it
// finds in a queue, and processes without a name if its maps are full.
type life struct {
	*bench
	random    *rand.Rand
	next      int // PID
	queues    []*queue
	truth     map[string]*[trace.Types]uint64 // queued events by device
	attached  bool
	places    int // size of the tracer's map
	apps      map[*queue]*trace.App
	changed   map[*queue]bool // since the last snapshot
	nameless  map[string]*trace.App
	ring      []trace.Event
	late      []trace.Event // events queued while the last Update was created: they are in the next one
	seen      trace.Update
	pointed   map[eventSeries]uint64
	counted   map[string]measure.AppCounts
	restarted bool
}

// queue has the unread events of a process on a device.
type queue struct {
	device string
	owner  Owner
	unread []verbs.EventType
}

var kinds = []verbs.EventType{verbs.EventQPFatal, verbs.EventCommEst, verbs.EventCQErr, verbs.EventDeviceFatal}

func newLife(t *testing.T, seed uint64) *life {
	l := &life{
		random: rand.New(rand.NewPCG(seed, 7)), truth: map[string]*[trace.Types]uint64{"d": {}, "e": {}}, pointed: map[eventSeries]uint64{},
		counted: map[string]measure.AppCounts{},
	}
	l.bench = newBench(t, 1+l.random.IntN(6), [][]string{{"app"}, {"app", "unit"}}[seed%2]...)
	l.places = 1 + l.random.IntN(12)
	l.start()
	return l
}

// start starts a new tracer.
func (l *life) start() {
	l.attached, l.apps, l.changed = true, map[*queue]*trace.App{}, map[*queue]bool{}
	l.nameless = map[string]*trace.App{"d": {Device: "d"}, "e": {Device: "e"}}
	l.ring, l.late, l.seen = nil, nil, trace.Update{}
}

// app returns the counts that the tracer uses for a queue.
func (l *life) app(q *queue) *trace.App {
	if a := l.apps[q]; a != nil {
		return a
	}
	a := l.nameless[q.device]
	if len(l.apps) < l.places {
		a = &trace.App{Device: q.device, Process: q.owner.Process}
	} else {
		l.seen.Full++
	}
	l.apps[q] = a
	for _, typ := range q.unread { // the event was queued before the tracer started
		a.Queued[typ]++
		a.Found[typ]++
		l.stays(a, typ)
	}
	return a
}

func (l *life) stays(a *trace.App, typ verbs.EventType) {
	a.Unread++
	if trace.IsError(typ) {
		a.UnreadErrors++
	}
}

func (l *life) leaves(a *trace.App, typ verbs.EventType) {
	a.Unread--
	if trace.IsError(typ) {
		a.UnreadErrors--
	}
}

func (l *life) step() {
	if len(l.queues) == 0 || l.random.IntN(12) == 0 {
		l.next++
		o := newProcess(l.next, "app"+strconv.Itoa(l.random.IntN(8)))
		o.Process.Unit = []string{"", "job_1", "x.service"}[l.random.IntN(3)]
		l.queues = append(l.queues, &queue{device: []string{"d", "e"}[l.random.IntN(2)], owner: o})
	}
	q := l.queues[l.random.IntN(len(l.queues))]
	switch l.random.IntN(8) {
	case 0:
		l.exit(q)
	case 1, 2:
		l.read(q)
	case 3:
		l.discard(q)
	default:
		l.queue(q, kinds[l.random.IntN(len(kinds))])
	}
}

// queue queues an event, unless the simulated kernel has no memory.
func (l *life) queue(q *queue, typ verbs.EventType) {
	l.truth[q.device][typ]++
	skipped := l.random.IntN(20) == 0
	if l.attached {
		a := l.app(q)
		a.Queued[typ]++
		if skipped {
			a.Skipped++
		} else {
			l.stays(a, typ)
		}
		l.changed[q] = true
		l.record(trace.Event{Device: q.device, Process: q.owner.Process, Type: typ, Number: uint32(l.next), At: l.mono})
	}
	if !skipped {
		q.unread = append(q.unread, typ)
	}
}

func (l *life) record(e trace.Event) {
	switch l.random.IntN(8) {
	case 0:
		l.seen.Lost++
	case 1:
		l.late = append(l.late, e)
	default:
		l.ring = append(l.ring, e)
	}
}

func (l *life) read(q *queue) {
	if l.attached && len(q.unread) > 0 {
		a := l.app(q)
		a.Read++
		a.Delays, a.DelaySum, a.DelayMax = a.Delays+1, a.DelaySum+5, 5
		l.leaves(a, q.unread[0])
		l.changed[q] = true
	}
	q.unread = q.unread[min(1, len(q.unread)):]
}

// discard destroys the objects of one kind.
func (l *life) discard(q *queue) {
	kind := kinds[l.random.IntN(len(kinds))]
	kept := slices.DeleteFunc(slices.Clone(q.unread), func(typ verbs.EventType) bool { return typ == kind })
	if n := len(q.unread) - len(kept); l.attached && n > 0 {
		a := l.app(q)
		a.Discarded += uint64(n)
		for range n {
			l.leaves(a, kind)
		}
		l.changed[q] = true
	}
	q.unread = kept
}

// exit ends a process.
func (l *life) exit(q *queue) {
	l.queues = slices.DeleteFunc(l.queues, func(o *queue) bool { return o == q })
	if a := l.apps[q]; l.attached && a != nil {
		for _, typ := range q.unread {
			a.Discarded++
			l.leaves(a, typ)
		}
		a.Ended = a.Process.PID != 0
		l.changed[q] = true
	}
}

// snapshot passes the changes of a second to the Picture.
func (l *life) snapshot() {
	s := l.seen
	s.Events, l.ring, l.late = l.ring, l.late, nil
	told := map[*trace.App]bool{}
	for q := range l.changed {
		if a := l.apps[q]; !told[a] {
			told[a] = true
			s.Apps = append(s.Apps, *a)
		}
		if l.apps[q].Ended {
			delete(l.apps, q)
		}
	}
	clear(l.changed)
	l.second(s)
}

// restart kills the tracer or ends it in an orderly way, continues without a tracer, and starts another one.
func (l *life) restart() {
	if l.random.IntN(2) == 0 {
		l.snapshot()
	}
	l.attached, l.restarted = false, true
	l.end()
	for range l.random.IntN(10) {
		l.step()
	}
	ids := l.CarriedProcesses()
	ids = slices.DeleteFunc(ids, func(id ProcessID) bool {
		return slices.ContainsFunc(l.queues, func(q *queue) bool { return q.owner.Process.ID() == id.ID })
	})
	l.RemoveProcesses(ids, l.now().Wall)
	l.start()
	l.begin()
}

// requireConsistent checks the points: every event of a series has one outcome, and no counter falls.
func (l *life) requireConsistent(t *testing.T) (queued map[string]*[trace.Types]uint64) {
	t.Helper()
	queued = map[string]*[trace.Types]uint64{"d": {}, "e": {}}
	now := map[string]measure.AppCounts{}
	for name, a := range l.async() {
		requireParity(t, a)
		was := l.counted[name]
		for typ, n := range a.Types {
			require.GreaterOrEqual(t, n, was.Types[typ], name)
			queued[a.Device][typ] += n
		}
		for _, pair := range [][2]uint64{
			{was.Processes, a.Processes}, {was.Read, a.Read}, {was.Discarded, a.Discarded}, {was.Skipped, a.Skipped},
		} {
			require.GreaterOrEqual(t, pair[1], pair[0], name)
		}
		now[name] = a.AppCounts
	}
	for name := range l.counted {
		require.Contains(t, now, name)
	}
	l.counted = now
	return queued
}

// requireShown compares the sums of all points of events with the counters.
func (l *life) requireShown(t *testing.T) {
	t.Helper()
	for _, e := range l.shown() {
		k := eventSeries{e.Device, e.App, e.Type}
		l.pointed[k] += e.Count
		require.Equal(t, l.pointed[k], e.Total)
	}
	counted := map[eventSeries]uint64{}
	for _, a := range l.async() {
		for typ, n := range a.Types {
			if n > 0 {
				counted[eventSeries{a.Device, a.App, verbs.EventType(typ)}] += n
			}
		}
	}
	require.Equal(t, counted, l.pointed)
}

func TestEachEventOfARandomHistoryIsCountedAndShownOnce(t *testing.T) {
	for seed := range uint64(60) {
		l := newLife(t, seed)
		restarts := seed%3 > 0
		for range 60 {
			for range l.random.IntN(12) {
				l.step()
			}
			if restarts && l.random.IntN(10) == 0 {
				l.restart()
			}
			l.snapshot()
			queued := l.requireConsistent(t)
			if !l.restarted {
				require.Equal(t, l.truth, queued)
			}
		}
		l.snapshot()
		l.snapshot() // now all details have arrived
		l.requireShown(t)
		l.end()
		l.mono += int64(time.Second)
		l.requireShown(t)
		require.EqualValues(t, 0, l.Host().Hangs)
	}
}

// If every process has a name, restarted tracers count no event twice.
func TestTracersThatBeginAnewCountNoEventTwice(t *testing.T) {
	for seed := range uint64(30) {
		l := newLife(t, seed)
		l.places = 1000
		for range 40 {
			for range l.random.IntN(12) {
				l.step()
			}
			if l.random.IntN(6) == 0 {
				l.restart()
			}
			l.snapshot()
			var queued, truth uint64
			for device, of := range l.requireConsistent(t) {
				queued, truth = queued+sumTypes(of), truth+sumTypes(l.truth[device])
			}
			require.LessOrEqual(t, queued, truth)
		}
		require.True(t, l.restarted)
	}
}
