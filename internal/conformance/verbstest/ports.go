package verbstest

import (
	"errors"
	"slices"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

func portCases() []testCase {
	return []testCase{
		{"the device says what it is", nil, deviceSaysWhatItIs},
		{"a device that does not exist is ErrNoDevice with its name", nil, noSuchDevice},
		{"a port that does not exist is an error", nil, noSuchPort},
		{"the query agrees with the link", []Capability{Link}, queryAgreesWithLink},
		{"queries run while a reader waits", nil, queriesWhileReading},
		{"the queue pair of a probe answers a query", nil, queuePairAnswers},
		{"the network device follows the link", []Capability{Link}, netDevFollowsLink},
		{"counters are read again and again, and not of a closed device", nil, countersAreRead},
		{"objects are listed by kind, and not of a closed device", nil, objectsAreListed},
		{"the GID table has different GIDs in the order of their indexes", nil, gidTableIsInOrder},
		{"the GID table says what a probe sends from", nil, gidTableHasProbed},
		{"a new address is in the GID table", []Capability{Addresses}, newAddressIsInGIDTable},
	}
}

func deviceSaysWhatItIs(s *session) {
	attr := s.dev.Attr()
	require.Equal(s.t, s.f.Device, attr.Name)
	require.GreaterOrEqual(s.t, attr.Ports, s.f.Port)
	require.Positive(s.t, attr.Vectors)
	require.NotEmpty(s.t, attr.Transport)
}

func noSuchDevice(s *session) {
	led, file, err := ledger.New("none")
	require.NoError(s.t, err)
	defer func() {
		require.NoError(s.t, file.Close())
		require.NoError(s.t, led.Close())
	}()
	_, err = s.f.Backend.Open("nosuch_7", led)
	require.ErrorIs(s.t, err, verbs.ErrNoDevice)
	require.ErrorContains(s.t, err, "nosuch_7")
	var op *verbs.OpError
	require.ErrorAs(s.t, err, &op)
	require.Equal(s.t, "nosuch_7", op.Device)
}

func noSuchPort(s *session) {
	for _, port := range []int{-1, 0, s.dev.Attr().Ports + 1, 1 << 20} {
		_, err := s.dev.QueryPort(port)
		_, ofGIDs := s.dev.ReadGIDs(port)
		_, ofNetDev := s.dev.ReadNetDev(port)
		_, ofLink := s.dev.AskLink(port)
		_, ofCounters := s.dev.ReadCounters(port, verbs.CountersPort)
		for _, err := range []error{err, ofGIDs, ofNetDev, ofLink, ofCounters, s.dev.ReadCounter(port), s.dev.QueryQP(port)} {
			require.Error(s.t, err, "port %d", port)
			// ErrNoDevice would mean that the device has been removed.
			require.NotErrorIs(s.t, err, verbs.ErrNoDevice, "port %d", port)
		}
	}
}

// hasCarrier reports whether the port's network device has a carrier. known is false if the port
// has no network device, as on InfiniBand.
func (s *session) hasCarrier() (carrier, known bool) {
	n, err := s.dev.ReadNetDev(s.f.Port)
	if errors.Is(err, verbs.ErrUnsupported) {
		return false, false
	}
	require.NoError(s.t, err)
	require.NotEmpty(s.t, n.Name)
	return n.AdminUp && n.HasCarrier && n.Carrier, true
}

func netDevFollowsLink(s *session) {
	carrier, known := s.hasCarrier()
	if !known {
		return
	}
	require.True(s.t, carrier)
	s.f.LinkDown(s.t)
	s.awaitState("down", func(a verbs.PortAttr) bool { return a.State != verbs.PortActive })
	carrier, _ = s.hasCarrier()
	require.False(s.t, carrier)
	s.f.LinkUp(s.t)
	s.awaitState("active", func(a verbs.PortAttr) bool { return a.State == verbs.PortActive })
	carrier, _ = s.hasCarrier()
	require.True(s.t, carrier)
}

func countersAreRead(s *session) {
	sources := []verbs.CounterSource{verbs.CountersHardware, verbs.CountersPort, verbs.CountersPCI, verbs.CountersNetDev, verbs.CountersFEC}
	for _, from := range sources {
		first, err := s.dev.ReadCounters(s.f.Port, from)
		if errors.Is(err, verbs.ErrUnsupported) {
			require.Empty(s.t, first, from)
			continue
		}
		require.NoError(s.t, err, from)
		require.NotEmpty(s.t, first, from)
		second, err := s.dev.ReadCounters(s.f.Port, from)
		require.NoError(s.t, err, from)
		for name, was := range first {
			require.GreaterOrEqual(s.t, second[name], was, name)
		}
	}
	require.NoError(s.t, s.close())
	for _, from := range sources {
		_, err := s.dev.ReadCounters(s.f.Port, from)
		require.ErrorIs(s.t, err, verbs.ErrClosed, from)
	}
	_, err := s.dev.AskLink(s.f.Port)
	require.ErrorIs(s.t, err, verbs.ErrClosed)
}

func objectsAreListed(s *session) {
	all := []verbs.ObjectKind{verbs.ObjectContext, verbs.ObjectPD, verbs.ObjectCQ, verbs.ObjectSRQ, verbs.ObjectQP}
	for _, kinds := range [][]verbs.ObjectKind{all, all[:len(all)-1]} {
		o, err := s.dev.ListObjects(kinds...)
		require.NoError(s.t, err)
		require.Positive(s.t, o.Mono)
		require.Empty(s.t, o.Problem)
		require.NotEmpty(s.t, o.Holders)
		var sum [verbs.ObjectKinds]uint32
		seen := map[verbs.Holder]bool{}
		for _, h := range o.Holders {
			who := verbs.Holder{Thread: h.Thread, Kernel: h.Kernel}
			require.False(s.t, seen[who], "%+v is there twice", who)
			seen[who] = true
			for kind, n := range h.Counts {
				sum[kind] += n
			}
		}
		// The kernel has a management queue pair on each port, except on iWARP, where probes use flush.
		if iWARP := slices.Contains(s.f.Methods, verbs.MethodFlush); !iWARP {
			require.True(s.t, seen[verbs.Holder{Kernel: true}])
			require.Positive(s.t, sum[verbs.ObjectPD])
		}
		for kind, l := range o.Lists {
			if kind < len(kinds) {
				require.Equal(s.t, verbs.ObjectList{State: verbs.ListComplete}, l)
			} else {
				require.Equal(s.t, verbs.ObjectList{}, l)
				require.Zero(s.t, sum[kind])
			}
		}
	}
	require.NoError(s.t, s.close())
	_, err := s.dev.ListObjects(all...)
	require.ErrorIs(s.t, err, verbs.ErrClosed)
}

func queuePairAnswers(s *session) {
	require.ErrorIs(s.t, s.dev.QueryQP(s.f.Port), verbs.ErrUnsupported)
	for _, m := range s.f.Methods {
		p := s.probe(m, 1)
		s.round(p)
		err := s.dev.QueryQP(s.f.Port)
		if m == verbs.MethodFlush {
			require.ErrorIs(s.t, err, verbs.ErrUnsupported, "each round uses up a queue pair")
		} else {
			require.NoError(s.t, err)
		}
		require.NoError(s.t, p.Close(patience))
		require.ErrorIs(s.t, s.dev.QueryQP(s.f.Port), verbs.ErrUnsupported, "the probe is closed")
	}
}

func gidTableIsInOrder(s *session) {
	t, err := s.dev.ReadGIDs(s.f.Port)
	require.NoError(s.t, err)
	require.Equal(s.t, s.f.Port, t.Port)
	require.Positive(s.t, t.Mono)
	require.NotEmpty(s.t, t.Entries)
	require.Empty(s.t, t.Probed, "there is no probe")
	last, seen := -1, map[verbs.GID]bool{}
	for _, g := range t.Entries {
		require.Greater(s.t, g.Index, last)
		last, g.Index = g.Index, 0
		require.False(s.t, seen[g], "%s is there twice", g)
		seen[g] = true
		require.NotEqual(s.t, [16]byte{}, g.Raw)
	}
}

func gidTableHasProbed(s *session) {
	for _, m := range s.f.Methods {
		c := s.config(m, 1)
		c.GIDIndex = 0
		p, err := s.dev.NewProbe(c)
		require.NoError(s.t, err)
		t, err := s.dev.ReadGIDs(s.f.Port)
		require.NoError(s.t, err)
		want := []int{0}
		if m == verbs.MethodFlush {
			want = nil
		}
		require.Equal(s.t, want, t.Probed, "%s", m)
		require.NoError(s.t, p.Close(patience))
	}
}

func newAddressIsInGIDTable(s *session) {
	before, err := s.dev.ReadGIDs(s.f.Port)
	require.NoError(s.t, err)
	s.f.AddAddress(s.t)
	s.untilType(verbs.EventGIDChange, []verbs.EventType{verbs.EventGIDChange})
	after, err := s.dev.ReadGIDs(s.f.Port)
	require.NoError(s.t, err)
	require.Greater(s.t, len(after.Entries), len(before.Entries))
	for _, g := range before.Entries {
		require.Contains(s.t, after.Entries, g)
	}
}

func queryAgreesWithLink(s *session) {
	before, err := s.dev.QueryPort(s.f.Port)
	require.NoError(s.t, err)
	s.linkDown()
	s.awaitState("down", func(a verbs.PortAttr) bool {
		counted := !a.HasLinkDowned || a.LinkDowned > before.LinkDowned
		return a.State == verbs.PortDown && counted
	})
	s.linkUp()
	s.awaitState("active", func(a verbs.PortAttr) bool { return a.State == verbs.PortActive })
	after, err := s.dev.QueryPort(s.f.Port)
	require.NoError(s.t, err)
	require.Equal(s.t, before.LinkLayer, after.LinkLayer)
	require.Equal(s.t, before.HasLinkDowned, after.HasLinkDowned)
}

func queriesWhileReading(s *session) {
	ended := make(chan error, 1)
	go func() { ended <- readForEver(s.dev) }()
	for range 100 {
		_, err := s.dev.QueryPort(s.f.Port)
		require.NoError(s.t, err)
	}
	require.NoError(s.t, s.close())
	require.ErrorIs(s.t, receiveInTime(s.t, "ReadEvents", ended), verbs.ErrClosed)
}

// readForEver reads events until an error, which it returns.
func readForEver(dev verbs.Device) error {
	runs := make([]verbs.Run, ampleRuns)
	for {
		if _, err := dev.ReadEvents(runs, -1); err != nil {
			return err
		}
	}
}
