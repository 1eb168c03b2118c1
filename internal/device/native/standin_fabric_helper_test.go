//go:build linux && cgo

package native_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/verbs"
)

// fabrics are the endpoints of both ports of the stand-in's device. The first one is the requester.
type fabrics struct {
	s                 *subject
	near, far         verbs.FabricEndpoint
	nearPort, farPort verbs.FabricPort
}

// fabric creates an endpoint on a port with the options of the order, or with default options.
func (s *subject) fabric(port int) (verbs.FabricEndpoint, verbs.FabricPort, error) {
	o := s.Fabric
	if o.Paths == 0 {
		o = verbs.FabricOptions{Paths: 4, Interval: time.Hour, GIDIndex: -1, PKeyIndex: -1}
	}
	return s.dev.NewFabricEndpoint(verbs.FabricConfig{Port: port, FabricOptions: o})
}

// fabrics creates both endpoints on an open device.
func (s *subject) fabrics() (*fabrics, error) {
	f := &fabrics{s: s}
	var err error
	if err = standin.WritePort(filepath.Join(s.root, "sys"), "standin0", 2); err != nil {
		return nil, err
	}
	if f.far, f.farPort, err = s.fabric(2); err != nil {
		return nil, err
	}
	f.near, f.nearPort, err = s.fabric(1)
	return f, err
}

// peer describes how one port reaches another, by the last GIDs of their tables, which are IPv4 addresses.
func (f *fabrics) peer(to verbs.FabricPort, role verbs.FabricRole, session uint64, rc uint32) *verbs.FabricPeer {
	p := &verbs.FabricPeer{
		Role: role, Session: session, UD: to.UD, QKey: to.QKey, RC: rc, PSN: 100, OwnPSN: 200, LID: to.LID,
	}
	if role == verbs.FabricAnswers {
		p.PSN, p.OwnPSN = p.OwnPSN, p.PSN
	}
	if len(to.GIDs) > 0 {
		p.Global, p.GIDIndex, p.GID = true, to.GIDs[0].Index, to.GIDs[0].Raw
	}
	return p
}

// answer makes the far port join a pair whose RC queue pair is rc, and returns the description of the peer for the near port.
func (f *fabrics) answer(place int, session uint64, rc uint32) (*verbs.FabricPeer, error) {
	own, err := f.far.Offer(place, verbs.FabricAnswers)
	if err != nil {
		return nil, err
	}
	return f.peer(f.farPort, verbs.FabricProbes, session, own),
		f.far.Join(place, f.peer(f.nearPort, verbs.FabricAnswers, session, rc))
}

// meet joins both sides of a pair.
func (f *fabrics) meet(place int, session uint64) error {
	rc, err := f.near.Offer(place, verbs.FabricProbes)
	if err != nil {
		return err
	}
	peer, err := f.answer(place, session, rc)
	if err != nil {
		return err
	}
	return f.near.Join(place, peer)
}

// run runs an endpoint for a time, and records the facts under a name. It repeats calls that return early.
func (f *fabrics) run(fab verbs.FabricEndpoint, name string, lasting time.Duration) error {
	facts := make([]verbs.FabricFact, verbs.MinFabricFacts)
	if f.s.report.Facts == nil {
		f.s.report.Facts = map[string][]verbs.FabricFact{}
	}
	for end := time.Now().Add(lasting); ; {
		n, _, err := fab.Run(facts, max(time.Until(end), 0))
		f.s.report.Facts[name] = append(f.s.report.Facts[name], facts[:n]...)
		if err != nil || !time.Now().Before(end) {
			return err
		}
	}
}

// once runs an endpoint once, and again as long as a run returns facts.
func (f *fabrics) once(fab verbs.FabricEndpoint, name string) error { return f.run(fab, name, 0) }

// note records a number under a name.
func (f *fabrics) note(name string, n int) {
	if f.s.report.Steps == nil {
		f.s.report.Steps = map[string]int{}
	}
	f.s.report.Steps[name] = n
}

// doFabric plays a scene with both endpoints, and closes them and the device.
func doFabric(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	f, err := s.fabrics()
	if err != nil {
		return err
	}
	s.report.Made = f.nearPort
	if err := scenes[s.Scene](f); err != nil {
		return fmt.Errorf("scene %q: %w", s.Scene, err)
	}
	s.readLedger()
	for name, fab := range map[string]verbs.FabricEndpoint{"close near": f.near, "close far": f.far} {
		if err := fab.Close(long); !errors.Is(err, verbs.ErrClosed) {
			s.check(name, err)
		}
	}
	s.check("close", s.dev.Close(long))
	return nil
}

// failFabric returns the error of a stage's call. A refusal that Run reports as a fact counts as an error.
func (s *subject) failFabric(f failure, arm func(string)) (err error) {
	if err := standin.WritePort(filepath.Join(s.root, "sys"), "standin0", 2); err != nil {
		return err
	}
	arm("fabric")
	near, port, err := s.fabric(1)
	if err != nil {
		return err
	}
	if f.Stage == "fabric" {
		return near.Close(long)
	}
	far, farPort, err := s.fabric(2)
	if err != nil {
		return err
	}
	both := &fabrics{s: s, near: near, far: far, nearPort: port, farPort: farPort}
	err = both.fail(f.Stage, arm)
	arm("close fabric")
	return errors.Join(err, near.Close(long), far.Close(long))
}

func (f *fabrics) fail(stage string, arm func(string)) error {
	arm("offer")
	rc, err := f.near.Offer(3, verbs.FabricProbes)
	if err != nil || stage == "offer" {
		return err
	}
	peer, err := f.answer(3, 1, rc)
	if err != nil {
		return err
	}
	arm("join")
	if err := f.near.Join(3, peer); err != nil || stage == "join" {
		return err
	}
	arm("run")
	if err := f.refused(); err != nil || stage == "run" {
		return err
	}
	if err := f.once(f.far, "far"); err != nil {
		return err
	}
	arm("run on")
	if err := f.refused(); err != nil || stage == "run on" {
		return err
	}
	arm("leave")
	return f.near.Leave(3)
}

// refused runs the near endpoint twice, and returns its error or the status of a fact.
func (f *fabrics) refused() error {
	for range 2 {
		clear(f.s.report.Facts)
		if err := f.once(f.near, "near"); err != nil {
			return err
		}
		for _, fact := range f.s.report.Facts["near"] {
			if fact.Status != "" {
				return errors.New(fact.Status)
			}
		}
	}
	return nil
}
