package session

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// known is a backend whose device has the given kernel driver.
type known struct {
	verbs.Backend
	driver string
}

func (k known) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	d, err := k.Backend.Open(name, led)
	return knownDevice{d, k.driver}, err
}

type knownDevice struct {
	verbs.Device
	driver string
}

func (d knownDevice) Attr() verbs.DeviceAttr {
	attr := d.Device.Attr()
	attr.Driver = d.driver
	return attr
}

func TestChoiceFollowsTheLinkLayer(t *testing.T) {
	ud, rc, flush := verbs.MethodUDSend, verbs.MethodRCWrite, verbs.MethodFlush
	for _, row := range []struct {
		name, profile string
		port          int
		driver        string
		bad           []verbs.Method
		vectors       []int
		want          verbs.Method
		reason        string
	}{
		{"RoCE", "roce2", 1, "mlx5_core", nil, []int{-1}, ud, "as preferred"},
		{"RoCE without datagrams", "roce2", 1, "mlx5_core", []verbs.Method{ud}, nil, rc, "the first round of ud_send ended as lost_completion"},
		{"RoCE without both", "roce2", 1, "mlx5_core", []verbs.Method{ud, rc}, nil, flush, "the first round of rc_write ended"},
		{"RoCE without any", "roce2", 1, "mlx5_core", []verbs.Method{ud, rc, flush}, nil, verbs.MethodNone, "the first round of flush ended"},
		{"InfiniBand", "dual", 1, "mlx5_core", nil, nil, rc, "as preferred"},
		{"InfiniBand without writes", "dual", 1, "mlx5_core", []verbs.Method{rc}, nil, flush, "the first round of rc_write ended"},
		{"EFA", "efa", 1, "efa", nil, []int{-1}, ud, "as preferred"},
		{"a handle is a command, one vector", "roce2", 1, "bnxt_en", nil, []int{0}, ud, "as preferred"},
		{"a handle is a command, two vectors", "roce2", 1, "bnxt_en", nil, []int{0, 1}, rc, "would need 240 a minute on this port (at most 120)"},
		{"a handle is a command, and no write", "roce2", 1, "ionic", []verbs.Method{rc}, []int{0, 1}, flush, "the first round of rc_write ended"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, row.profile, "")
				r.Options.Ports = []int{row.port}
				if row.vectors != nil {
					r.Options.Probe.Vectors = row.vectors
				}
				r.Wrap = func(b verbs.Backend) verbs.Backend {
					for _, m := range row.bad {
						b = failingRounds(m, verbs.OutcomeLostCompletion, nil)(b)
					}
					return known{b, row.driver}
				}
				r.Start(nil)
				for _, got := range probeItems(r.After(30 * time.Second)) {
					require.Equal(t, row.want, got.Method)
					require.Contains(t, got.Reason, row.reason)
				}
				if row.want != verbs.MethodNone {
					require.Zero(t, r.counts().LostCompletions, "a trial that is not kept is no round")
				}
			})
		})
	}
}

// A method that is skipped for its cost was not refused, so it is not tried again.
func TestDearHandlesCauseNoRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int32
		r := newRig(t, "roce2", "")
		r.Wrap = func(b verbs.Backend) verbs.Backend { return known{counting{b, &made}, "bnxt_en"} }
		r.Options.Ports, r.Options.Probe.Vectors = []int{1}, []int{0, 1}
		r.Start(nil)
		r.After(time.Hour)
		require.EqualValues(t, 2, made.Load(), "one for each vector")
	})
}

// awayProbes makes datagram probes find no address while rounds are left.
func awayProbes(b verbs.Backend, left *atomic.Int32) verbs.Backend {
	return probes{b, func(c verbs.ProbeConfig, p verbs.Probe) verbs.Probe {
		if c.Method != verbs.MethodUDSend {
			return p
		}
		return &awayProbe{Probe: p, left: left}
	}, verbs.MethodNone}
}

type awayProbe struct {
	verbs.Probe
	left     *atomic.Int32
	unusable bool
}

func (p *awayProbe) Usable() bool { return !p.unusable && p.Probe.Usable() }

func (p *awayProbe) Round(pause time.Duration) (verbs.Round, error) {
	r, _, err := p.Rounds(verbs.Pace{Pause: pause})
	return r, err
}

func (p *awayProbe) Rounds(pace verbs.Pace) (verbs.Round, int, error) {
	if p.left.Load() == 0 { // the test sets it while no prober runs
		return p.Probe.Rounds(verbs.Pace{Pause: pace.Pause})
	}
	p.left.Add(-1)
	p.unusable = true
	time.Sleep(pace.Pause)
	return verbs.Round{Outcome: verbs.OutcomeCanceled, Status: "ibv_create_ah: no data available"}, 0, nil
}

func TestMissingAddressIsChosenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var without atomic.Int32
		r := newRig(t, "roce2", "")
		r.Options.Ports = []int{1}
		r.Wrap = func(b verbs.Backend) verbs.Backend { return awayProbes(b, &without) }
		r.Start(nil)
		items := r.After(5600 * time.Millisecond)
		without.Store(1)
		items = append(items, r.After(5*time.Second)...)
		require.Len(t, probeItems(items), 1, "the method stays")
		require.Len(t, roundItems(items), 11, "the round is made by another probe")
		require.Zero(t, r.counts().Errors)
	})
}

func TestAddressThatStaysAwayIsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var without atomic.Int32
		without.Store(1 << 30)
		r := newRig(t, "roce2", "")
		r.Options.Ports = []int{1}
		r.Wrap = func(b verbs.Backend) verbs.Backend { return awayProbes(b, &without) }
		r.Start(nil)
		items := r.After(9600 * time.Millisecond)
		require.Equal(t, verbs.MethodRCWrite, probeItems(items)[0].Method)
		require.Contains(t, probeItems(items)[0].Reason, "ud_send has no address to send from (ibv_create_ah: no data available)")
		require.Len(t, roundItems(items), 10)
		without.Store(0)
		items = r.After(2 * time.Minute)
		require.Equal(t, verbs.MethodUDSend, roundItems(items)[len(roundItems(items))-1].Method)
		require.Zero(t, r.counts().Errors)
	})
}

func TestNamedMethodWithoutAddressIsRetriedWithGrowingDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var without atomic.Int32
		without.Store(1 << 30)
		r := newRig(t, "roce2", "")
		r.Options.Ports, r.Options.Probe.Method = []int{1}, verbs.MethodUDSend
		r.Wrap = func(b verbs.Backend) verbs.Backend { return awayProbes(b, &without) }
		r.Start(nil)
		items := r.After(10 * time.Second)
		require.Len(t, probeItems(items), 1)
		require.Equal(t, verbs.MethodNone, probeItems(items)[0].Method)
		require.EqualValues(t, 1<<30-4, without.Load(), "at 0 s, 1 s, 3 s and 7 s")
		require.Empty(t, roundItems(items))
	})
}
