// Package summary tells from the records of one or several hosts what broke within a window of time: what broke first and where, what
// followed, what was broken before, and which records are missing. It is pure: it reads no file and no clock.
package summary

import (
	"cmp"
	"slices"
	"time"

	"rdma_events/internal/record/timeline"
)

// The bounds of what records can make a Summary keep, since they may come from a directory that anyone has written.
const (
	maxFaults = 4096
	maxPlaces = 65536 // ports, devices and commands whose state is followed
	maxGaps   = 1024
	maxHeld   = 1024 // devices of a host
)

// Query selects what a summary is about.
type Query struct {
	// Since and Until bound the window. A zero time leaves that side open.
	Since, Until time.Time
	// Unit is a Slurm job, pod, container or service, as internal/applications/identity names it. Faults of applications of other units are left
	// out, and those whose unit is not known are counted apart. "": the applications of all units count.
	Unit string
	// Now is the time at which the records are read. A record need not go on until the end of a window that is later. A zero time is
	// after the window.
	Now time.Time
}

// Summary collects faults from records. Add takes the records of one host in their order; the hosts may come in any order and
// interleaved. The zero Summary is not usable: New returns one. It is not safe for concurrent use.
type Summary struct {
	query Query

	faults  []*fault
	left    int // faults that are not kept, since there are too many
	groups  map[groupKey]*fault
	places  map[place]*condition
	hosts   map[string]*host
	unknown uint64 // events of applications whose unit is not known
	gaps    []gap
	more    int // gaps that are not kept
}

// place is a port, a device (port 0), a command of a device or a thread's object.
type place struct {
	host, device string
	port         int
	of           string // the call of a command, or the application that hangs; "": the port or device itself
}

// condition is the present state of a place.
type condition struct {
	state string // of a port: the last that is not absent; "" where it is not known
	open  *fault // nil: it is not broken
	last  *fault // the last fault, for evidence that follows it
}

// host is what is known of a host's records as a whole.
type host struct {
	begins, ends time.Time // of the first and the last record
	// alive is the longest time without a record while the host records; 0: not known. stopped: the last record is the end of a run.
	alive    time.Duration
	stopped  bool
	untraced bool // applications are not traced at the moment
	traced   bool // they were traced at some time in the window
	// held are the devices of which the unit that was asked for held objects, and unclear those of which objects were held whose
	// unit is not known.
	held, unclear map[string]bool
}

// New returns an empty Summary.
func New(q Query) *Summary {
	return &Summary{
		query: q, groups: map[groupKey]*fault{}, places: map[place]*condition{}, hosts: map[string]*host{},
	}
}

// AddHost makes a host known whose directory has no record.
func (s *Summary) AddHost(name string) { s.host(name) }

func (s *Summary) host(name string) *host {
	h := s.hosts[name]
	if h == nil {
		h = &host{untraced: true, held: map[string]bool{}, unclear: map[string]bool{}}
		s.hosts[name] = h
	}
	return h
}

// Add takes a record. Those from before the window say what was broken already, and those from after it what recovered.
func (s *Summary) Add(k *timeline.StoredRecord) {
	h := s.host(k.Host)
	if h.begins.IsZero() {
		h.begins = k.Time
	}
	if h.ends.Before(k.Time) {
		h.ends = k.Time
	}
	h.stopped = k.IsEnd()
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

// condition returns the state of a place; a new one if there are too many places.
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

// ordered returns the faults that began within the window, the first one first, and those that were there already. The unused ones are
// those of devices that the unit did not hold.
func (s *Summary) ordered() (began, already, unused []*fault) {
	for _, f := range s.faults {
		isThere := s.isWithin(f.at) || s.isBefore(f.at) && (f.ended.IsZero() || !s.isBefore(f.ended))
		switch {
		case isThere && !s.mayConcernUnit(f):
			unused = append(unused, f)
		case s.isWithin(f.at):
			began = append(began, f)
		case s.isBefore(f.at) && (f.ended.IsZero() || !s.isBefore(f.ended)):
			already = append(already, f)
		}
	}
	byTime := func(a, b *fault) int {
		switch {
		case !a.at.Equal(b.at) || a.isApp == b.isApp:
			return a.at.Compare(b.at)
		case a.isApp: // at one time the device explains the application
			return 1
		}
		return -1
	}
	slices.SortStableFunc(began, byTime)
	slices.SortStableFunc(already, byTime)
	return began, already, unused
}

// gap is a time of which records are missing, or in which they are out of order.
type gap struct {
	host         string
	since, until time.Time
	lost         uint64        // records
	step         time.Duration // of the wall clock
	text         string        // what cannot be read; "": the plugin did not record
	rebooted     bool
}

// addGap keeps a gap that overlaps the window.
func (s *Summary) addGap(g gap) {
	if s.isBefore(g.until) || s.isAfter(g.since) {
		return
	}
	if len(s.gaps) == maxGaps {
		s.more++
		return
	}
	s.gaps = append(s.gaps, g)
}

// AddUnread notes a part of a host's records that cannot be read.
func (s *Summary) AddUnread(host, what string) {
	if len(s.gaps) == maxGaps {
		s.more++
		return
	}
	s.gaps = append(s.gaps, gap{host: host, text: what})
}

// aliveSlack is how much later than it should a record may come on a busy host.
const aliveSlack = time.Minute

// silence returns what is to be said of a host whose record ends before the window does, "" if it is whole as far as can be told.
func (s *Summary) silence(name string, h *host) string {
	until := s.query.Until
	if now := s.query.Now; !now.IsZero() && now.Before(until) {
		until = now
	}
	if h.ends.IsZero() || !h.ends.Before(until) {
		return ""
	}
	switch after := "no record of " + name + " after " + clockOf(h.ends); {
	case h.stopped:
		return after + ": the plugin was stopped"
	case h.alive > 0 && until.Sub(h.ends) > h.alive+aliveSlack:
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
