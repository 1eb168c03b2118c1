package inventory

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

var start = time.Unix(1_700_000_000, 0)

func newPicture(t *testing.T, most int, by ...string) *Picture {
	t.Helper()
	if len(by) == 0 {
		by = []string{"app"}
	}
	p, err := NewPicture(Options{By: by, MaxSeries: most})
	require.NoError(t, err)
	return p
}

func newProcess(pid int, comm string) Owner {
	return Owner{Process: identity.Process{PID: pid, Start: uint64(pid), Comm: comm, Unit: "u.service"}}
}

// object is one object. The state is that of a queue pair.
type object struct {
	Owner Owner
	State int
}

// dump is a list of objects, or the state of a list without objects.
type dump struct {
	state   verbs.ListState
	count   uint64
	objects []object
}

type dumps map[verbs.ObjectKind]dump

func completeDump(objects ...object) dump { return dump{state: verbs.ListComplete, objects: objects} }

// lookAt returns a Listing with these lists.
func lookAt(device string, at time.Time, found dumps) *Listing {
	look := &Listing{Device: device, At: at}
	for kind, d := range found {
		look.Lists[kind] = verbs.ObjectList{State: cmp.Or(d.state, verbs.ListFailed), Count: d.count}
		for _, o := range d.objects {
			one := Holding{Owner: o.Owner}
			one.Counts[kind]++
			if kind == verbs.ObjectQP && o.State >= 0 && o.State < verbs.QPStates {
				one.States[o.State]++
			}
			look.Holdings = append(look.Holdings, one)
		}
	}
	return look
}

// contextListing returns a Listing with one context for each owner.
func contextListing(at time.Time, device string, owners ...Owner) *Listing {
	var objects []object
	for _, o := range owners {
		objects = append(objects, object{Owner: o})
	}
	return lookAt(device, at, dumps{verbs.ObjectContext: completeDump(objects...)})
}

// contextCounts returns the known numbers of contexts by "device app unit".
func contextCounts(p *Picture) map[string]int64 {
	held := map[string]int64{}
	for _, a := range p.Points(start) {
		if a.Contexts.Known {
			held[a.Device+" "+a.App+" "+a.Unit] = a.Contexts.Count
		}
	}
	return held
}

func TestObjectsAreCountedByApplication(t *testing.T) {
	p := newPicture(t, 10)
	a, b, same := newProcess(1, "a"), newProcess(2, "b"), newProcess(3, "a")
	p.AddListing(lookAt("d", start, dumps{
		verbs.ObjectContext: completeDump(object{Owner: a}, object{Owner: b}, object{Owner: same}),
		verbs.ObjectPD:      completeDump(object{Owner: a}),
		verbs.ObjectCQ:      completeDump(object{Owner: b}, object{Owner: Owner{Kernel: true}}, object{}),
		verbs.ObjectSRQ:     completeDump(),
		verbs.ObjectQP: completeDump(object{Owner: a, State: 6}, object{Owner: a, State: 3}, object{Owner: same, State: 3}, object{State: 0},
			object{Owner: b, State: 9}, object{Owner: b, State: -1}),
	}))
	known := func(n int64) measure.Held { return measure.Held{Count: n, Known: true} }
	states := func(reset, rts, err int64) [verbs.QPStates]measure.Held {
		return [verbs.QPStates]measure.Held{known(reset), known(0), known(0), known(rts), known(0), known(0), known(err)}
	}
	point := func(app string, contexts, pds, cqs, qps int64) *measure.App {
		return &measure.App{
			Device: "d", App: app, Contexts: known(contexts), PDs: known(pds), CQs: known(cqs), SRQs: known(0), QPs: known(qps), At: start,
		}
	}
	wantA, wantB, wantKernel, wantUnknown := point("a", 2, 1, 0, 3), point("b", 1, 0, 1, 2), point("kernel", 0, 0, 1, 0), point("unknown", 0, 0, 1, 1)
	wantA.Processes, wantA.States = known(2), states(0, 2, 1)
	wantB.Processes, wantB.States = known(1), states(0, 0, 0)
	wantKernel.States, wantUnknown.States = states(0, 0, 0), states(1, 0, 0)
	require.Equal(t, []*measure.App{wantA, wantB, wantKernel, wantUnknown}, p.Points(start))
}

func TestAUnitPartsASeriesOnlyWhenAskedFor(t *testing.T) {
	here, there := newProcess(1, "a"), newProcess(2, "a")
	there.Process.Unit = "job_7"
	p := newPicture(t, 9)
	p.AddListing(contextListing(start, "d", here, there))
	require.Equal(t, map[string]int64{"d a ": 2}, contextCounts(p))
	p = newPicture(t, 9, "app", "unit")
	p.AddListing(contextListing(start, "d", here, there, newProcess(3, "other"), Owner{}))
	require.Equal(t, map[string]int64{"d a u.service": 1, "d a job_7": 1, "d other ": 1, "d unknown ": 1}, contextCounts(p))
}

func TestTheFirstSeriesKeepTheirPlaces(t *testing.T) {
	p := newPicture(t, 2)
	p.AddListing(contextListing(start, "d", newProcess(2, "b"), newProcess(1, "a"), newProcess(3, "c")))
	require.Equal(t, map[string]int64{"d a ": 1, "d b ": 1, "d other ": 1}, contextCounts(p))
	p.AddListing(contextListing(start.Add(time.Minute), "d", newProcess(3, "c"), newProcess(4, "c"), newProcess(2, "b")))
	require.Equal(t, map[string]int64{"d a ": 0, "d b ": 1, "d other ": 2}, contextCounts(p))
	p.AddListing(contextListing(start, "e", newProcess(1, "a")))
	require.Equal(t, map[string]int64{"d b ": 1, "d other ": 2, "e other ": 1}, contextCounts(p), "the places are for all devices together")
}

func TestASeriesWithoutAProcessYieldsItsPlaceAfterTenMinutesIfOneIsNeeded(t *testing.T) {
	p := newPicture(t, 2)
	p.AddListing(contextListing(start, "d", newProcess(1, "a"), newProcess(2, "b")))
	require.Equal(t, map[string]int64{"d a ": 1, "d b ": 1}, contextCounts(p))
	p.AddListing(contextListing(start.Add(time.Minute), "d", newProcess(2, "b")))
	p.AddListing(contextListing(start.Add(keepPlaceFor-1), "d", newProcess(2, "b"), newProcess(3, "c")))
	require.Equal(t, map[string]int64{"d a ": 0, "d b ": 1, "d other ": 1}, contextCounts(p), "not yet")
	p.AddListing(contextListing(start.Add(5*keepPlaceFor), "d", newProcess(2, "b")))
	require.Equal(t, map[string]int64{"d b ": 1, "d other ": 0}, contextCounts(p), "no other needs it")
	p.AddListing(contextListing(start.Add(5*keepPlaceFor), "d", newProcess(2, "b"), newProcess(3, "c"), newProcess(4, "x")))
	require.Equal(t, map[string]int64{"d c ": 1, "d b ": 1, "d other ": 1}, contextCounts(p))
	p.AddListing(contextListing(start.Add(5*keepPlaceFor+1), "d", newProcess(1, "a"), newProcess(2, "b"), newProcess(3, "c")))
	require.Equal(t, map[string]int64{"d c ": 1, "d b ": 1, "d other ": 1}, contextCounts(p), "a returns as the last to come")
}

func TestTheSeriesThatHasBeenWithoutAProcessForLongestYieldsFirst(t *testing.T) {
	p := newPicture(t, 3)
	p.AddListing(contextListing(start, "d", newProcess(1, "a"), newProcess(2, "b"), newProcess(3, "c")))
	p.AddListing(contextListing(start.Add(time.Minute), "d", newProcess(1, "a"), newProcess(3, "c")))
	p.AddListing(contextListing(start.Add(2*time.Minute), "d", newProcess(3, "c")))
	late := start.Add(3 * keepPlaceFor)
	p.AddListing(contextListing(late, "d", newProcess(3, "c"), newProcess(4, "x")))
	require.Equal(t, map[string]int64{"d c ": 1, "d x ": 1}, contextCounts(p))
	require.Contains(t, p.places.assigned, series{device: "d", app: "a"})
	p.AddListing(contextListing(late, "d", newProcess(3, "c"), newProcess(4, "x"), newProcess(5, "y")))
	require.Equal(t, map[string]int64{"d y ": 1, "d c ": 1, "d x ": 1}, contextCounts(p))
}

func TestASeriesWithAProcessNeverYields(t *testing.T) {
	p := newPicture(t, 1)
	p.AddListing(contextListing(start, "quiet", newProcess(1, "a")))
	p.AddListing(contextListing(start.Add(9*keepPlaceFor), "d", newProcess(2, "b")))
	require.Equal(t, map[string]int64{"quiet a ": 1, "d other ": 1}, contextCounts(p), "its device has only not been looked at since")
	p.RemoveDevice("quiet")
	p.AddListing(contextListing(start.Add(9*keepPlaceFor), "d", newProcess(2, "b")))
	require.Equal(t, map[string]int64{"d b ": 1, "d other ": 0}, contextCounts(p))
}

func TestSeriesEndsAfterOneLineOfZeros(t *testing.T) {
	p := newPicture(t, 9)
	a, b := newProcess(1, "a"), newProcess(2, "b")
	both := dumps{verbs.ObjectContext: completeDump(object{Owner: a}, object{Owner: b}), verbs.ObjectQP: completeDump(object{Owner: a}, object{Owner: b})}
	p.AddListing(lookAt("d", start, both))
	require.Equal(t, map[string]int64{"d a ": 1, "d b ": 1}, contextCounts(p))
	p.AddListing(lookAt("d", start, dumps{verbs.ObjectContext: completeDump(object{Owner: b}), verbs.ObjectQP: completeDump(object{Owner: b})}))
	last := p.Points(start)
	require.Len(t, last, 2)
	zero := measure.Held{Known: true}
	require.Equal(t, [3]measure.Held{zero, zero, zero}, [3]measure.Held{last[0].Processes, last[0].Contexts, last[0].QPs})
	require.Equal(t, map[string]int64{"d b ": 1}, contextCounts(p))
	p.AddListing(lookAt("d", start, both))
	require.Equal(t, map[string]int64{"d a ": 1, "d b ": 1}, contextCounts(p), "it comes back")
}

func TestLastLineOfASeriesWaitsForAListThatIsKnown(t *testing.T) {
	p := newPicture(t, 9)
	p.AddListing(contextListing(start, "d", newProcess(1, "a")))
	require.Len(t, p.Points(start), 1)
	p.AddListing(lookAt("d", start, dumps{verbs.ObjectContext: {}}))
	require.Empty(t, p.Points(start))
	p.AddListing(contextListing(start, "d"))
	require.Equal(t, map[string]int64{"d a ": 0}, contextCounts(p))
	require.Empty(t, p.Points(start))
}

func TestAListThatFailedLeavesItsFieldsOut(t *testing.T) {
	p := newPicture(t, 9)
	a := newProcess(1, "a")
	p.AddListing(lookAt("d", start, dumps{verbs.ObjectContext: completeDump(object{Owner: a}), verbs.ObjectQP: completeDump(object{Owner: a})}))
	p.AddListing(lookAt("d", start, dumps{verbs.ObjectQP: {}}))
	points := p.Points(start)
	require.Len(t, points, 1)
	known := measure.Held{Count: 1, Known: true}
	require.Equal(t, &measure.App{Device: "d", App: "a", Processes: known, Contexts: known, At: start}, points[0])
	p.AddListing(lookAt("d", start, dumps{verbs.ObjectContext: {}}))
	require.Empty(t, p.Points(start), "no point without a field")
}

func TestATypeThatWasNotAskedForKeepsItsList(t *testing.T) {
	p := newPicture(t, 9)
	a := newProcess(1, "a")
	p.AddListing(lookAt("d", start, dumps{verbs.ObjectQP: completeDump(object{Owner: a, State: 3})}))
	a.Process.Comm = "renamed"
	p.AddListing(contextListing(start.Add(10*time.Second), "d", a))
	for _, point := range p.Points(start) {
		if point.App == "renamed" {
			require.EqualValues(t, 1, point.QPs.Count)
			require.EqualValues(t, 1, point.States[3].Count)
			require.EqualValues(t, 1, point.Processes.Count)
			continue
		}
		require.Zero(t, point.Processes.Count+point.QPs.Count)
	}
}

func TestQueuePairsOfProcessesThatCameSinceTheirListAreNotKnown(t *testing.T) {
	p := newPicture(t, 9)
	p.AddListing(lookAt("d", start, dumps{verbs.ObjectQP: completeDump(object{Owner: newProcess(1, "a"), State: 3})}))
	p.AddListing(contextListing(start.Add(time.Second), "d", newProcess(1, "a"), newProcess(2, "a"), newProcess(3, "b")))
	qps := func() map[string]measure.Held {
		found := map[string]measure.Held{}
		for _, a := range p.Points(start.Add(time.Second)) {
			require.Equal(t, a.QPs.Known, a.States[3].Known)
			found[a.App] = a.QPs
		}
		return found
	}
	require.Equal(t, map[string]measure.Held{"a": {Count: 1, Known: true}, "b": {}}, qps())
	p.AddListing(lookAt("d", start.Add(2*time.Second), dumps{verbs.ObjectQP: completeDump(object{Owner: newProcess(3, "b"), State: 3})}))
	require.Equal(t, map[string]measure.Held{"a": {Known: true}, "b": {Count: 1, Known: true}}, qps())
}

func TestWhatWasOnlyCountedIsOfUnknownOwners(t *testing.T) {
	p := newPicture(t, 9)
	look := contextListing(start, "d", newProcess(1, "a"))
	look.Lists[verbs.ObjectQP] = verbs.ObjectList{State: verbs.ListCounted, Count: 20_000}
	p.AddListing(look)
	points := p.Points(start)
	require.Len(t, points, 2)
	require.Equal(t, "a", points[0].App)
	require.False(t, points[0].QPs.Known)
	require.Equal(t, measure.Held{Count: 20_000, Known: true}, points[1].QPs)
	require.Equal(t, [verbs.QPStates]measure.Held{}, points[1].States)
	require.False(t, points[1].Processes.Known)
}

func TestAReusedPIDIsCountedAsAnotherProcess(t *testing.T) {
	p := newPicture(t, 9)
	first, second := newProcess(1, "a"), newProcess(1, "a")
	second.Process.Start = 99
	p.AddListing(contextListing(start, "d", first, second))
	require.EqualValues(t, 2, p.Points(start)[0].Processes.Count)
}

func TestAListThatIsTooOldIsNotKnown(t *testing.T) {
	p := newPicture(t, 9)
	a := newProcess(1, "a")
	p.AddListing(lookAt("d", start, dumps{verbs.ObjectCQ: completeDump(object{Owner: a}), verbs.ObjectQP: completeDump(object{Owner: a})}))
	known := func(after time.Duration) (cqs, qps bool) {
		for _, point := range p.Points(start.Add(after)) {
			cqs, qps = point.CQs.Known, point.QPs.Known
		}
		return cqs, qps
	}
	for after, want := range map[time.Duration][2]bool{
		30 * time.Second: {true, true}, 31 * time.Second: {false, true}, 3 * time.Minute: {false, true}, 181 * time.Second: {},
	} {
		cqs, qps := known(after)
		require.Equal(t, want, [2]bool{cqs, qps}, after)
	}
}

func TestALookIsWhatTheThreadsOfProcessesHold(t *testing.T) {
	main := newProcess(7, "python3").Process
	o := verbs.Objects{Holders: []verbs.Holder{{Thread: 7}, {Thread: 8}, {Thread: 9}, {Kernel: true}, {}}}
	for i := range o.Holders {
		o.Holders[i].Counts[verbs.ObjectCQ] = 1
	}
	o.Lists[verbs.ObjectCQ].State = verbs.ListComplete
	look := NewListing("d", start, &o, func(thread int) (identity.Process, bool) {
		if thread == 9 {
			return identity.Process{}, false // it has ended
		}
		return main, true
	})
	p := newPicture(t, 9)
	p.AddListing(look)
	counts := map[string][2]int64{}
	for _, a := range p.Points(start) {
		counts[a.App] = [2]int64{a.Processes.Count, a.CQs.Count}
	}
	require.Equal(t, map[string][2]int64{"python3": {1, 2}, "kernel": {0, 1}, "unknown": {0, 2}}, counts)
}

func TestOptionsThatAreNotValidAreNamed(t *testing.T) {
	for option, o := range map[string]Options{
		"max_series": {By: []string{"app"}}, "by": {By: []string{"unit"}, MaxSeries: 1}, "by = []": {MaxSeries: 1},
	} {
		_, err := NewPicture(o)
		require.ErrorIs(t, err, ErrOption)
		require.ErrorContains(t, err, option)
	}
}

// model has the objects of a random host.
type model struct {
	random  *rand.Rand
	owners  []Owner
	objects map[string]*[verbs.ObjectKinds][]object
}

func (m *model) step() {
	switch m.random.IntN(4) {
	case 0: // a process starts
		pid := 1 + m.random.IntN(1000)
		o := newProcess(pid, "app"+strconv.Itoa(m.random.IntN(12)))
		o.Process.Start = m.random.Uint64N(1 << 40)
		o.Process.Unit = []string{"", "job_1", "x.service"}[m.random.IntN(3)]
		m.owners = append(m.owners, o)
	case 1: // an owner ends with all its objects
		i := m.random.IntN(len(m.owners))
		for _, of := range m.objects {
			for t := range of {
				var left []object
				for _, o := range of[t] {
					if o.Owner != m.owners[i] {
						left = append(left, o)
					}
				}
				of[t] = left
			}
		}
		if i > 1 { // the first two are the kernel and an invisible owner
			m.owners = append(m.owners[:i], m.owners[i+1:]...)
		}
	default:
		of := m.objects[[]string{"d", "e"}[m.random.IntN(2)]]
		t := m.random.IntN(int(verbs.ObjectKinds))
		of[t] = append(of[t], object{Owner: m.owners[m.random.IntN(len(m.owners))], State: m.random.IntN(verbs.QPStates)})
	}
}

// look lists all or some types of objects, and returns the objects that the Picture should now have for the device.
func (m *model) look(device string, at time.Time, shown *[verbs.ObjectKinds][]object) *Listing {
	found := dumps{}
	for t := range verbs.ObjectKinds {
		if m.random.IntN(3) > 0 {
			found[t] = completeDump(m.objects[device][t]...)
			shown[t] = slices.Clone(m.objects[device][t])
		}
	}
	return lookAt(device, at, found)
}

func TestTheSumOverAllSeriesIsTheObjectsThatWerePutIn(t *testing.T) {
	for seed := range uint64(20) {
		m := &model{random: rand.New(rand.NewPCG(seed, 1)), owners: []Owner{{Kernel: true}, {}}}
		m.objects = map[string]*[verbs.ObjectKinds][]object{"d": {}, "e": {}}
		shown := map[string]*[verbs.ObjectKinds][]object{"d": {}, "e": {}}
		by := [][]string{{"app"}, {"app", "unit"}}[seed%2]
		most := 1 + m.random.IntN(15)
		p := newPicture(t, most, by...)
		for _, device := range []string{"d", "e"} {
			p.AddListing(lookAt(device, start, dumps{
				verbs.ObjectContext: completeDump(), verbs.ObjectPD: completeDump(), verbs.ObjectCQ: completeDump(), verbs.ObjectSRQ: completeDump(),
				verbs.ObjectQP: completeDump(),
			}))
		}
		at := start
		for range 200 {
			for range 1 + m.random.IntN(5) {
				m.step()
			}
			at = at.Add(time.Duration(m.random.IntN(300)) * time.Second)
			device := []string{"d", "e"}[m.random.IntN(2)]
			p.AddListing(m.look(device, at, shown[device]))
			requireSums(t, p, shown, most)
		}
	}
}

// counts has the numbers of a device: objects by type, then queue pairs by state, then processes.
type counts [int(verbs.ObjectKinds) + verbs.QPStates + 1]int64

func requireSums(t *testing.T, p *Picture, shown map[string]*[verbs.ObjectKinds][]object, most int) {
	t.Helper()
	got, want := map[string]counts{"d": {}, "e": {}}, map[string]counts{}
	places, keys := 0, map[measure.Key]bool{}
	for _, a := range p.Points(start) {
		require.False(t, keys[a.Key()], "%v is there twice", a.Key())
		keys[a.Key()] = true
		if !isSpecial(a.App) {
			places++
		}
		c := got[a.Device]
		values := append([]measure.Held{a.Contexts, a.PDs, a.CQs, a.SRQs, a.QPs}, a.States[:]...)
		for i, held := range append(values, a.Processes) {
			c[i] += held.Count
		}
		got[a.Device] = c
	}
	require.LessOrEqual(t, places, most)
	for device, of := range shown {
		want[device] = countsOf(of)
	}
	require.Equal(t, want, got)
}

func countsOf(of *[verbs.ObjectKinds][]object) counts {
	var c counts
	processes := map[identity.ID]bool{}
	for t, objects := range of {
		c[t] = int64(len(objects))
		for i := range objects {
			if verbs.ObjectKind(t) == verbs.ObjectQP {
				c[int(verbs.ObjectKinds)+objects[i].State]++
			}
			if o := &objects[i].Owner; o.Process.PID != 0 {
				processes[o.Process.ID()] = true
			}
		}
	}
	c[len(c)-1] = int64(len(processes))
	return c
}
