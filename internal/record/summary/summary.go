// Package summary summarizes the records of one or several hosts within a window of time: what broke first and where, what
// followed, what was already broken, and which records are missing. It is pure: it reads no file and no clock.
package summary

import (
	"cmp"
	"slices"
	"time"

	"rdma_events/internal/record/timeline"
)

// Limits for the memory of a Summary. The records may come from a directory that anyone has written.
const (
	maxFaults = 4096
	maxPlaces = 65536 // ports, devices and commands whose state the Summary tracks
	maxGaps   = 1024
	maxHeld   = 1024 // devices of a host
)

// Query selects what a summary is about.
type Query struct {
	// Since and Until are the limits of the window. A zero time means no limit.
	Since, Until time.Time
	// Unit is a Slurm job, pod, container or service, as named by internal/applications/identity. The summary leaves out faults
	// of applications of other units, and counts faults of unknown units separately. "": all units.
	Unit string
	// Now is the time at which the records are read. It replaces the end of a window that ends later. The zero time means a time
	// after the window.
	Now time.Time
}

// Summary collects faults from records. The records of one host have to be added in their order, but the hosts may come in any
// order and interleaved. Use New to create a Summary. It is not safe for concurrent use.
type Summary struct {
	query Query

	faults        []*fault
	omittedFaults int // faults that were omitted because there are too many
	groups        map[groupKey]*fault
	places        map[place]*condition
	hosts         map[string]*host
	unknown       uint64 // errors of applications whose unit is not known
	named         bool   // a record within the window names the unit of the query
	gaps          []gap
	omittedGaps   int // gaps that were omitted because there are too many
}

// place is a port, a device (port 0), a command of a device or a thread's object.
type place struct {
	host, device string
	port         int
	subject      string // call of a command, or application that hangs; "": the port or device itself
}

// condition is the current state of a place.
type condition struct {
	state string // of a port: the last state other than absent; "": not known
	open  *fault // the open fault; nil: the place has none
	last  *fault // the last fault, for evidence that follows it
}

// host describes the records of a host as a whole.
type host struct {
	firstRecord, lastRecord time.Time     // times of the first and the last record
	alive                   time.Duration // longest time without a record while the plugin records; 0: not known
	stopped                 bool          // the last record is the end record of a run
	untraced                bool          // applications are currently not traced
	traced                  bool          // applications were traced at some time before the end of the window
	// held has the devices of which the unit of the query held objects. maybeHeld has the devices of which an unknown unit held
	// objects.
	held, maybeHeld map[string]bool
	// holding has the applications of the unit, with a device each, that still held objects of the device at the start of the window.
	holding map[string]bool
}

// New returns an empty Summary.
func New(q Query) *Summary {
	return &Summary{
		query: q, groups: map[groupKey]*fault{}, places: map[place]*condition{}, hosts: map[string]*host{},
	}
}

// AddHost adds a host, which may have no records.
func (s *Summary) AddHost(name string) { s.host(name) }

func (s *Summary) host(name string) *host {
	h := s.hosts[name]
	if h == nil {
		h = &host{untraced: true, held: map[string]bool{}, maybeHeld: map[string]bool{}, holding: map[string]bool{}}
		s.hosts[name] = h
	}
	return h
}

// Add adds a record. Records from before the window tell what was already broken, and records from after it what recovered.
func (s *Summary) Add(k *timeline.StoredRecord) {
	h := s.host(k.Host)
	if h.firstRecord.IsZero() {
		h.firstRecord = k.Time
	}
	if h.lastRecord.Before(k.Time) {
		h.lastRecord = k.Time
	}
	h.stopped = k.IsEnd()
	s.named = s.named || s.query.Unit != "" && k.App != nil && k.App.Unit == s.query.Unit && s.isWithin(k.Time)
	switch {
	case k.Alive != nil:
		h.alive = time.Duration(k.Alive.AliveNS)
	case k.Start != nil:
		h.alive = time.Duration(k.Start.AliveNS)
		s.addStart(k)
	case k.Lost != nil:
		s.addGap(gap{host: k.Host, since: k.Lost.Since, until: k.Time, lost: k.Lost.Count})
	case k.Clock != nil:
		s.addGap(gap{host: k.Host, since: k.Time, until: k.Time, step: time.Duration(k.Clock.StepNS)})
	case k.Kind == timeline.KindEvent, k.Kind == timeline.KindState, k.Kind == timeline.KindPort:
		s.addPort(k)
	case k.Kind == timeline.KindDevice:
		s.addDevice(k)
	case k.Kind == timeline.KindCommand:
		s.addCommand(k)
	case k.Kind == timeline.KindProbe:
		s.addProbe(k)
	case k.Kind == timeline.KindEvidence:
		s.addCause(k)
	case k.Kind == timeline.KindFabricPeer, k.Kind == timeline.KindFabricPort:
		s.addFabric(k)
	case k.Kind == timeline.KindAppHolds:
		s.addHolder(h, k)
	case k.Kind == timeline.KindTracer:
		h.untraced = !k.Tracer.Attached
		h.traced = h.traced || k.Tracer.Attached && !s.isAfter(k.Time)
	case k.Kind == timeline.KindAppEvent, k.Kind == timeline.KindAppUnread, k.Kind == timeline.KindAppHang:
		s.addApp(k)
	}
}

func (s *Summary) isBefore(t time.Time) bool { return t.Before(s.query.Since) }

func (s *Summary) isAfter(t time.Time) bool { return !s.query.Until.IsZero() && t.After(s.query.Until) }

func (s *Summary) isWithin(t time.Time) bool { return !s.isBefore(t) && !s.isAfter(t) }

// condition returns the condition of a place, and creates it if necessary. If there are too many places, it does not keep it.
func (s *Summary) condition(p place) *condition {
	c := s.places[p]
	if c == nil {
		c = &condition{}
		if len(s.places) < maxPlaces {
			s.places[p] = c
		}
	}
	return c
}

// classify returns the faults that began within the window, and the faults that existed before, both ordered by time. unrelated
// has the faults of devices that the unit of the query did not hold.
func (s *Summary) classify() (began, already, unrelated []*fault) {
	for _, f := range s.faults {
		isThere := s.isWithin(f.first) || s.isBefore(f.first) && (f.ended.IsZero() || !s.isBefore(f.ended))
		switch {
		case isThere && !s.mayConcernUnit(f):
			unrelated = append(unrelated, f)
		case s.isWithin(f.first):
			began = append(began, f)
		case s.isBefore(f.first) && (f.ended.IsZero() || !s.isBefore(f.ended)):
			already = append(already, f)
		}
	}
	byTime := func(a, b *fault) int {
		switch {
		case !a.first.Equal(b.first) || a.isApp == b.isApp:
			return a.first.Compare(b.first)
		case a.isApp: // at equal times the fault of the device comes first, because it explains the application's
			return 1
		}
		return -1
	}
	slices.SortStableFunc(began, byTime)
	slices.SortStableFunc(already, byTime)
	return began, already, unrelated
}

// gap is a span of time in which records are missing or out of order.
type gap struct {
	host         string
	since, until time.Time
	lost         uint64        // lost records
	step         time.Duration // by which the wall clock was set
	text         string        // what cannot be read; "": the plugin recorded nothing
	rebooted     bool
}

// addGap adds a gap if it overlaps the window.
func (s *Summary) addGap(g gap) {
	if s.isBefore(g.until) || s.isAfter(g.since) {
		return
	}
	if len(s.gaps) == maxGaps {
		s.omittedGaps++
		return
	}
	s.gaps = append(s.gaps, g)
}

// AddUnread adds a part of a host's records that cannot be read.
func (s *Summary) AddUnread(host, what string) {
	if len(s.gaps) == maxGaps {
		s.omittedGaps++
		return
	}
	s.gaps = append(s.gaps, gap{host: host, text: what})
}

// aliveSlack is the delay that is allowed for a record on a busy host.
const aliveSlack = time.Minute

// silenceText returns a text about a host whose records end before the window ends, or "" if nothing seems to be missing.
func (s *Summary) silenceText(name string, h *host) string {
	until := s.query.Until
	if now := s.query.Now; !now.IsZero() && now.Before(until) {
		until = now
	}
	if h.lastRecord.IsZero() || !h.lastRecord.Before(until) {
		return ""
	}
	switch after := "no record of " + name + " after " + formatTime(h.lastRecord); {
	case h.stopped:
		return after + ": the plugin was stopped"
	case h.alive > 0 && until.Sub(h.lastRecord) > h.alive+aliveSlack:
		return after + ": the plugin or the host ended without a record, or the copy is of that time"
	}
	return ""
}

// sortedHosts returns the names of the hosts.
func (s *Summary) sortedHosts() []string {
	var names []string
	for name := range s.hosts {
		names = append(names, name)
	}
	slices.SortFunc(names, cmp.Compare)
	return names
}
