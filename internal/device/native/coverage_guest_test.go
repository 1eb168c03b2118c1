//go:build guest

package native_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/rawverbs"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/native"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/lab/guest"
)

// times is how often the test module raises an event.
const times = 3

// scene is a device that is open for one event type.
type scene struct {
	t   *testing.T
	typ verbs.EventType
	led *ledger.Ledger
	dev verbs.Device
}

func TestNativeBackendReadsEveryTypeOfEvent(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	for _, c := range eventCoverage() {
		for _, r := range c.recipes {
			if r.how == byStandIn || !r.of(guest.Driver()) || r.kernel != "" && !guest.KernelHas(t, r.kernel) {
				continue
			}
			t.Run(c.name+" by "+r.how, func(t *testing.T) {
				provoke := provocations[r.how]
				require.NotNil(t, provoke, "no provocation has this name")
				checkCoverage(t, c, provoke)
			})
		}
	}
}

// provocation makes a device raise events: exactly count of them, or with atLeast at least count. destroy, unless it
// is nil, destroys the object of the events.
type provocation func(s *scene) (count uint64, atLeast bool, destroy func() error)

func checkCoverage(t *testing.T, c covered, provoke provocation) {
	s := openScene(t, verbs.EventType(c.number))
	count, atLeast, destroy := provoke(s)
	got := s.readUntil(count)
	if atLeast {
		require.GreaterOrEqual(t, got, count)
	} else {
		require.Equal(t, count, got)
	}
	port := 0
	if c.scope == "port" {
		port = 1
	}
	var snap ledger.Contents
	s.led.CopyTo(&snap)
	require.Contains(t, snap.Events, ledger.EventCounts{Type: int32(c.number), Port: int32(port), Read: got, Acked: got})
	if destroy != nil {
		began := time.Now()
		require.NoError(t, callInTime(t, "destroy", destroy))
		t.Logf("%d read; the object was destroyed in %v", got, time.Since(began))
	}
}

// callInTime makes a call, and fails the test if it does not return within a second.
func callInTime(t *testing.T, what string, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Second):
		t.Fatalf("%s: not within a second", what)
		return nil
	}
}

func openScene(t *testing.T, typ verbs.EventType) *scene {
	t.Helper()
	led, file, err := ledger.New("coverage")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, file.Close())
		require.NoError(t, led.Close())
	})
	dev, err := native.New(sysfs.New("/sys")).Open(device, led)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close(time.Second)) })
	s := &scene{t: t, typ: typ, led: led, dev: dev}
	s.awaitActive()
	s.read(100 * time.Millisecond) // the events of a link that has just come up
	return s
}

func (s *scene) awaitActive() {
	s.t.Helper()
	guest.Eventually(s.t, "port active", 10*time.Second, func() bool {
		attr, err := s.dev.QueryPort(1)
		return err == nil && attr.State == verbs.PortActive
	})
}

// read reads events until none has come for the time quiet, and returns the number of those of the scene's type.
func (s *scene) read(quiet time.Duration) uint64 {
	s.t.Helper()
	var got uint64
	runs := make([]verbs.Run, 16)
	for {
		n, err := s.dev.ReadEvents(runs, quiet)
		require.NoError(s.t, err)
		if n == 0 {
			return got
		}
		for _, r := range runs[:n] {
			if r.Type == s.typ {
				got += r.Count
			}
		}
	}
}

// readUntil reads until at least count events of the type have come and then no further one, and returns their number.
func (s *scene) readUntil(count uint64) uint64 {
	s.t.Helper()
	var got uint64
	guest.Eventually(s.t, s.typ.String(), 10*time.Second, func() bool {
		got += s.read(50 * time.Millisecond)
		return got >= count
	})
	return got
}

// objects creates objects on the context of the scene's device.
func (s *scene) objects(o rawverbs.Options) *rawverbs.Objects {
	s.t.Helper()
	objects, err := rawverbs.New(native.Context(s.dev), o)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, callInTime(s.t, "destroy", objects.Destroy)) })
	return objects
}

var provocations = map[string]provocation{
	byOverrun: func(s *scene) (uint64, bool, func() error) {
		o := s.objects(rawverbs.Options{Completions: 1})
		require.NoError(s.t, o.Connect())
		require.NoError(s.t, o.PostWrites(o.Completions()+times))
		return times, false, o.Destroy
	},
	byFlush: func(s *scene) (uint64, bool, func() error) {
		o := s.objects(rawverbs.Options{Completions: 1})
		require.NoError(s.t, o.Init())
		require.NoError(s.t, o.PostReceives(o.Completions()+times))
		require.NoError(s.t, o.Move(rawverbs.Error))
		return 1, false, o.Destroy // siw_rq_flush stops at the first one that finds no space
	},
	byDraining: func(s *scene) (uint64, bool, func() error) {
		o := s.objects(rawverbs.Options{Completions: 8})
		require.NoError(s.t, o.Connect())
		require.NoError(s.t, o.PostWrites(1))
		require.NoError(s.t, o.Move(rawverbs.Drained))
		return 1, false, o.Destroy
	},
	byLimit: func(s *scene) (uint64, bool, func() error) {
		o := s.objects(rawverbs.Options{Completions: 32, SRQ: true})
		require.NoError(s.t, o.Connect())
		require.NoError(s.t, o.PostReceives(8))
		require.NoError(s.t, o.Limit(6))
		require.NoError(s.t, o.PostSends(4))
		return 1, false, o.Destroy // the limit is disarmed when it is reached
	},
	byErrorState: func(s *scene) (uint64, bool, func() error) {
		o := s.objects(rawverbs.Options{Completions: 32, SRQ: true})
		require.NoError(s.t, o.Connect())
		require.NoError(s.t, o.Move(rawverbs.Error))
		return 1, false, o.Destroy
	},
	byLinkDown: func(s *scene) (uint64, bool, func() error) {
		guest.IP(s.t, "link", "set", netdev, "down")
		s.t.Cleanup(func() { guest.IP(s.t, "link", "set", netdev, "up") })
		return 1, false, nil
	},
	byLinkUp: func(s *scene) (uint64, bool, func() error) {
		guest.IP(s.t, "link", "set", netdev, "down")
		guest.IP(s.t, "link", "set", netdev, "up")
		return 1, true, nil // up to Linux 6.12, rxe repeats it with every NETDEV_CHANGE
	},
	byAddress: func(s *scene) (uint64, bool, func() error) {
		guest.IP(s.t, "addr", "add", "10.89.1.1/24", "dev", netdev)
		s.t.Cleanup(func() { guest.IP(s.t, "addr", "del", "10.89.1.1/24", "dev", netdev) })
		return 1, false, nil
	},
	byMAC: func(s *scene) (uint64, bool, func() error) {
		guest.IP(s.t, "link", "set", netdev, "address", "02:00:00:00:00:42")
		return 1, false, nil
	},
	byDispatch: func(s *scene) (uint64, bool, func() error) {
		guest.Inject(s.t, device, int(s.typ), 1, times)
		return times, false, nil
	},
	byHandler: func(s *scene) (uint64, bool, func() error) {
		kind := s.typ.Scope().String()
		o := s.objects(rawverbs.Options{Completions: 8, SRQ: kind == "srq"})
		guest.InjectObject(s.t, device, kind, int(s.typ), times)
		return times, false, o.Destroy
	},
}

// TestNativeBackendOnSIWFlushesAQPOnlyOnce checks the statements on soft iWARP in docs/reference/compatibility.md.
func TestNativeBackendOnSIWFlushesAQPOnlyOnce(t *testing.T) {
	guest.RequireDriver(t, softIWARP)
	guest.AddDevice(t, device, softIWARP, netdev)
	s := openScene(t, verbs.EventCQErr)

	_, err := rawverbs.New(native.Context(s.dev), rawverbs.Options{Completions: 8, UD: true})
	t.Logf("a UD queue pair: %v", err)
	require.ErrorContains(t, err, "operation not supported")

	o := s.objects(rawverbs.Options{Completions: 8})
	require.NoError(t, o.Init())
	toReceive, toSend := o.ReadyToReceive(), o.ReadyToSend()
	t.Logf("INIT to RTR: %v; to RTS: %v", toReceive, toSend)
	require.ErrorContains(t, toSend, "invalid argument", "without a connection of the connection manager")

	require.NoError(t, o.Move(rawverbs.Reset))
	require.NoError(t, o.Init())
	require.NoError(t, o.PostReceives(1))
	require.NoError(t, o.Move(rawverbs.Error))
	requireFlushed(t, o, "a receive, when its queue pair fails")

	posted := o.PostWrites(1)
	n, _, err := o.Poll()
	t.Logf("a write posted in ERROR: %v; completions %d", posted, n)
	require.NoError(t, err)
	require.Zero(t, n)

	// ERROR is final: a queue pair flushes once.
	again := o.Move(rawverbs.Reset)
	t.Logf("ERROR to RESET: %v", again)
	post := strings.Join([]string{fmt.Sprint(o.Init()), fmt.Sprint(o.PostReceives(1)), fmt.Sprint(o.Move(rawverbs.Error))}, "; ")
	n, _, err = o.Poll()
	t.Logf("a second time: INIT, post, ERROR: %s; completions %d", post, n)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, callInTime(t, "destroy", o.Destroy))
}

func requireFlushed(t *testing.T, o *rawverbs.Objects, what string) {
	t.Helper()
	var n, status int
	guest.Eventually(t, what, 5*time.Second, func() bool {
		var err error
		n, status, err = o.Poll()
		require.NoError(t, err)
		return n > 0
	})
	require.Equal(t, 1, n)
	require.Equal(t, rawverbs.WRFlushErr, status)
}
