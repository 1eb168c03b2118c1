//go:build linux && cgo

package native_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// observation is the behavior of a device for a user, from its start to its removal.
type observation struct {
	Up, Down, Back, Recovered standin.Probing
	GRH                       string            // "1": in the address of a connected queue pair; "": none reached RTR
	States                    []verbs.PortState // of its port
	Events                    map[string]uint64 // by type and port
	Queries, LinkDowned       int               // queries of its port; reads of link_downed
	PKeys                     int               // reads of P_Keys
	Query                     int               // commands of a query
	Flushes                   int32
	Dead                      string          // reason of a watch that ends in error state
	DeadRounds                map[string]bool // outcomes of its bad rounds
	Reopen, Unmade            string          // of the next watch, if the state lasts
	Removed                   []string        // reasons that watches end with by a removal
	Left                      int             // contexts that were opened and not closed

	reads *reads
}

// doProfile takes a device with a driver's profile through its states, in four watches,
// or in two if it has no error state.
func doProfile(s *subject) error {
	p, ok := standin.FindProfile(s.Profile)
	if !ok {
		return fmt.Errorf("no profile %q", s.Profile)
	}
	s.Apply(p)
	if err := p.WriteSysfs(filepath.Join(s.root, "sys"), "standin0", "uverbs0"); err != nil {
		return err
	}
	l := &s.report.Observed
	var err error
	if l.reads, err = newReads(filepath.Join(s.root, "sys/class/infiniband/standin0/ports/1")); err != nil {
		return err
	}
	defer l.reads.close()
	stages := []func(*watched) error{l.move, l.die, l.reopen, l.remove}
	if !p.CanDie {
		stages = []func(*watched) error{l.move, l.remove}
	}
	for _, stage := range stages {
		s.Removed, s.Disassociate = 0, 0 // it has been registered again
		if err := s.list(); err != nil {
			return err
		}
		w, err := s.watch(p)
		if err != nil {
			return err
		}
		if err := stage(w); err != nil {
			return err
		}
	}
	l.Left = int(s.Calls[ledger.CallOpenDevice] - s.Calls[ledger.CallCloseDevice])
	l.Flushes = s.Flushes
	return nil
}

// move watches the device from a start, while its port goes down and up.
func (l *observation) move(w *watched) error {
	var err error
	if l.Up, err = w.probing(0); err != nil {
		return err
	}
	if l.Down, err = w.turn(verbs.PortDown, verbs.EventPortErr); err != nil {
		return err
	}
	for _, typ := range w.p.Events {
		if err := w.raise(typ, 1); err != nil {
			return err
		}
	}
	if l.Back, err = w.turn(verbs.PortActive, verbs.EventPortActive); err != nil {
		return err
	}
	want := len(eventsOf(w.p))
	if err := w.await("all events", func() bool { l.Events = w.events(); return len(l.Events) >= want }); err != nil {
		return err
	}
	l.States = w.states()
	if err := w.end(); err != nil {
		return err
	}
	l.PKeys, l.LinkDowned = l.reads.count()
	l.Queries = w.m.asked()
	if n := int(w.s.Calls[ledger.CallQueryPort]); n != l.Queries {
		return fmt.Errorf("ibv_query_port was called %d times for %d queries", n, l.Queries)
	}
	l.Query = w.p.Commands[ledger.CallQueryPort] + l.LinkDowned/l.Queries*w.p.LinkDowned
	l.GRH = last(argumentValues(strings.Split(w.s.CallTrace(), "\n"), "modify_qp to=rtr", "global"))
	return nil
}

func last(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// turn changes the state of the port, and returns how the port is then probed.
func (w *watched) turn(to verbs.PortState, typ verbs.EventType) (standin.Probing, error) {
	w.s.PortState = int32(to)
	after := w.m.begun()
	for range w.p.PortEvents {
		if err := w.raise(typ, 1); err != nil {
			return standin.Probing{}, err
		}
	}
	if err := w.await("the port's state", func() bool { s := w.states(); return len(s) > 0 && s[len(s)-1] == to }); err != nil {
		return standin.Probing{}, err
	}
	return w.probing(after)
}

// raise makes the device raise an event. element is the port of a port event.
func (w *watched) raise(typ verbs.EventType, element uint64) error {
	if typ.Scope() == verbs.ScopeDevice && typ != verbs.EventDeviceFatal {
		element = 0
	}
	return w.s.inject(event{Type: int32(typ), Element: element})
}

// eventsOf returns the expected events of the first watch.
func eventsOf(p standin.Profile) map[string]uint64 {
	counts := map[string]uint64{}
	if p.PortEvents > 0 {
		counts["port_err of port 1"], counts["port_active of port 1"] = uint64(p.PortEvents), uint64(p.PortEvents)
	}
	for _, typ := range p.Events {
		port := 0
		if typ.Scope() == verbs.ScopePort {
			port = 1
		}
		counts[fmt.Sprint(typ, " of port ", port)]++
	}
	return counts
}

// die puts the device into its error state, and then removes it for a recovery.
func (l *observation) die(w *watched) error {
	up, err := w.probing(0)
	if err != nil {
		return err
	}
	since, asked := len(w.seen(0)), w.m.asked()
	want := 0
	if w.p.Fatal >= 0 {
		want = 1
		if err := w.raise(verbs.EventDeviceFatal, uint64(w.p.Fatal)); err != nil {
			return err
		}
	}
	w.s.Dead = 1
	err = w.await("the error state", func() bool {
		l.DeadRounds = badRounds(w.seen(since))
		return w.ended() != nil || int(w.events()["device_fatal of port 0"]) == want && w.m.asked() > asked+1 &&
			(up.Method == verbs.MethodNone || len(l.DeadRounds) > 0)
	})
	if err != nil {
		return err
	}
	if e := w.ended(); e != nil {
		l.Dead, l.DeadRounds = string(e.Reason), nil // there may have been no bad round
		return w.end()
	}
	return l.unregister(w)
}

func (l *observation) reopen(w *watched) error {
	err := w.await("an end or a choice", func() bool { return w.ended() != nil || w.choice().Reason != "" })
	if err != nil {
		return err
	}
	if e := w.ended(); e != nil {
		l.Reopen = string(e.Reason)
	} else {
		l.Unmade = w.choice().Reason
	}
	w.s.Dead = 0
	return w.end()
}

// remove watches a start, after a recovery if there was an error state, and a removal.
func (l *observation) remove(w *watched) (err error) {
	if l.Recovered, err = w.probing(0); err != nil {
		return err
	}
	return l.unregister(w)
}

// unregister removes the device as its driver does.
func (l *observation) unregister(w *watched) error {
	if w.p.Disassociates { // first, as in the kernel: a session that sees by sysfs that the device is gone makes no more calls
		w.s.Disassociate = 1
	} else {
		close(w.m.removed)
	}
	w.s.unlist()
	if err := w.await("an end", func() bool { return w.ended() != nil }); err != nil {
		return err
	}
	l.Removed = append(l.Removed, string(w.ended().Reason))
	return w.end()
}

// TestEachDriverIsSeenAsItsTableSays compares the observation of each profile with the
// table, whose facts the stand-in follows.
func TestEachDriverIsSeenAsItsTableSays(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	ends := map[string]func(*testing.T) report{}
	for _, p := range standin.Profiles() { // all at once, since each waits most of the time
		ends[p.Name] = startOrder(t, order{Kind: "profile", Profile: p.Name}, exe, filepath.Dir(standInLibrary(t)))
	}
	for _, p := range standin.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			r := ends[p.Name](t)
			require.Empty(t, r.Violation)
			requireObservation(t, p, r.Observed)
			t.Log(probingCost(p, r.Observed))
		})
	}
}

// requireObservation compares all fields. The table contains only a part of each reason.
func requireObservation(t *testing.T, p standin.Profile, got observation) {
	t.Helper()
	want := observation{
		Up: p.Seen.Up, Down: p.Seen.Down, Back: p.Seen.Up, Query: p.Seen.Query,
		States: []verbs.PortState{verbs.PortActive, verbs.PortDown, verbs.PortActive}, Events: eventsOf(p),
		PKeys: 2, Queries: got.Queries,
	}
	if slices.Contains(p.Events, verbs.EventPKeyChange) {
		want.PKeys += 2 // the table is read again
	}
	switch p.Seen.Up.Method {
	case verbs.MethodRCWrite:
		want.GRH = "1"
	case verbs.MethodUDSend:
		want.GRH = "0" // the GRH of a datagram is in its address handle
	}
	if p.LinkDowned > 0 || p.Name == "rxe" {
		want.LinkDowned = got.Queries
	}
	want.Recovered, want.Removed = p.Seen.Up, []string{"removed"}
	want.died(p)
	for _, pair := range [][2]*standin.Probing{
		{&want.Up, &got.Up}, {&want.Down, &got.Down}, {&want.Back, &got.Back}, {&want.Recovered, &got.Recovered},
	} {
		require.Contains(t, pair[1].Why, pair[0].Why)
		pair[1].Why = pair[0].Why
	}
	require.Contains(t, got.Unmade, want.Unmade)
	got.Unmade = want.Unmade
	if p.Seen.Down.Why != "the driver counts flushed work requests" {
		want.Flushes = got.Flushes
	}
	require.Equal(t, want, got)
}

// died fills in the expected effects of the error state.
func (l *observation) died(p standin.Profile) {
	if !p.CanDie {
		return
	}
	l.Dead, l.Reopen, l.Unmade = p.Seen.Dead, p.Seen.Reopen, p.Seen.Unmade
	if l.Dead != "" {
		return
	}
	l.Removed = append(l.Removed, "removed")
	l.DeadRounds = map[string]bool{}
	switch p.Seen.Up.Method {
	case verbs.MethodRCWrite, verbs.MethodUDSend:
		l.DeadRounds["lost_completion"] = true
		if verbs.AddressHandleIsCommand(p.Module) {
			l.DeadRounds = map[string]bool{"error": true} // the device makes no address handle
		}
	case verbs.MethodFlush:
		l.DeadRounds["error"] = true // a command of its round fails
	}
}

// probingCost returns the cost of probing a profile's device in commands a minute, with a round each second and a query every 5 s.
func probingCost(p standin.Profile, l observation) string {
	const rounds, queries = 60, 12
	cost := func(s standin.Probing) string {
		return fmt.Sprintf("%s, %d commands a minute", s.Method, s.Round*rounds+l.Query*queries)
	}
	return fmt.Sprintf("%s: up %s; down %s, and %d for each attempt", p.Name, cost(l.Up), cost(l.Down), l.Down.Attempt)
}
