package session

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/sessiontest"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

func TestNothingIsAskedUnderTheRTNLLockOfADeviceThatIsSlowToAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "roce2", cableDown+`
[[command]]
at = "25s"
device = "sim0"
what = "slow"
took = "150ms"
for = "10s"
`)
		r.Options.Ethtool = verbs.EthtoolAll
		r.Start(nil)
		explained, _ := completeSnapshots(r.After(45 * time.Second))
		require.Len(t, explained, 1)
		require.Nil(t, explained[0].Link)
		require.Contains(t, explained[0].Counters[verbs.CountersHardware], "out_of_buffer", "what was read is kept")
		require.NotContains(t, explained[0].Counters, verbs.CountersPort)
		const why = "the device took 150ms to answer a command"
		require.Equal(t, []string{"counters: " + why, "ext_state: " + why, "ethtool: " + why}, explained[0].LeftOut)
	})
}

func TestNothingIsAskedUnderTheRTNLLockOfADeviceThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "roce2", cableDown+`
[[command]]
at = "25s"
device = "sim0"
what = "fails"
for = "10s"
`)
		r.Start(nil)
		explained, _ := completeSnapshots(r.After(45 * time.Second))
		require.Len(t, explained, 1)
		require.Nil(t, explained[0].Link)
		require.Empty(t, explained[0].Counters)
		require.Equal(t, []string{
			"hw_counters: connection timed out",
			"counters: the device answered a command with: connection timed out",
			"ext_state: the device answered a command with: connection timed out",
		}, explained[0].LeftOut)
	})
}

func TestNothingIsAskedUnderTheRTNLLockSoonAfterDeviceFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "roce2", cableDown+`
[[event]]
at = "28s"
device = "sim0"
type = "device_fatal"
[[link]]
at = "41s"
down_for = "10s"
device = "sim0"
why = "no_cable"
`)
		r.Start(nil)
		explained, _ := completeSnapshots(r.After(59 * time.Second))
		require.Len(t, explained, 3)
		require.Equal(t, verbs.Trigger("device_fatal"), explained[0].Trigger)
		require.Equal(t, []string{"ext_state: device_fatal was less than 10s ago"}, explained[1].LeftOut)
		require.Equal(t, "no_cable", explained[2].Link.ExtState, "it is over")
	})
}

func TestADeviceWhoseCounterReadHangsIsWatchedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "roce2", cableDown+`
[[command]]
at = "29s"
device = "sim0"
for = "20s"
`)
		r.Options.CommandInterval, r.Options.CommandStuck = time.Hour, 5*time.Second
		r.Start(nil)
		r.After(29 * time.Second)
		items := r.After(15 * time.Second)
		parts := sessiontest.Pick(items, func(i verbs.Item) *verbs.Snapshot { return i.Snapshot })
		require.Len(t, parts, 1, "what was read before the hang")
		require.False(t, parts[0].NetDev.Carrier)
		require.Equal(t, ledger.CallReadSysfs, r.Counters().Evidence.Call)
		runs := sessiontest.Pick(items, func(i verbs.Item) *verbs.Run { return i.Run })
		require.Len(t, runs, 2, "port_err and port_active")
		explained, _ := completeSnapshots(r.After(10 * time.Second))
		require.Len(t, explained, 1)
		require.Equal(t, []string{
			"counters: the device took 18.99s to answer a command", "ext_state: the device took 18.99s to answer a command",
		}, []string{explained[0].LeftOut[0], explained[0].LeftOut[1]})
	})
}

func TestCountersAreLeftOutWhileAnotherCommandHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "roce2", cableDown+`
[[command]]
at = "26s"
device = "sim0"
call = "query_port"
for = "20s"
`)
		r.Options.StateInterval = time.Second
		r.Start(nil)
		explained, _ := completeSnapshots(r.After(40 * time.Second))
		require.NotEmpty(t, explained)
		require.Equal(t, verbs.Trigger("port_err"), explained[0].Trigger)
		require.False(t, explained[0].NetDev.Carrier, "it asks no driver")
		r.After(10 * time.Second) // the query ends before the ledger does
		const why = "the device is not answering another command"
		require.Equal(t, []string{"counters: " + why, "ext_state: " + why}, explained[0].LeftOut)
	})
}

// changed is a device with some calls replaced by a test.
type changed struct {
	verbs.Device
	commands     verbs.CommandSet
	queryPort    func(port int) (verbs.PortAttr, error)
	queryQP      func(port int) error
	readCounters func(port int, from verbs.CounterSource) (map[string]uint64, error)
	link         func(port int) (verbs.Link, error)
	objects      func(kinds ...verbs.ObjectKind) (*verbs.Objects, error)
}

func (d *changed) Commands() verbs.CommandSet                 { return d.commands }
func (d *changed) QueryPort(port int) (verbs.PortAttr, error) { return d.queryPort(port) }
func (d *changed) QueryQP(port int) error                     { return d.queryQP(port) }
func (d *changed) AskLink(port int) (verbs.Link, error)       { return d.link(port) }
func (d *changed) ReadCounters(port int, from verbs.CounterSource) (map[string]uint64, error) {
	return d.readCounters(port, from)
}

func (d *changed) ListObjects(kinds ...verbs.ObjectKind) (*verbs.Objects, error) {
	return d.objects(kinds...)
}

// change replaces calls of the devices that a rig opens.
func (r *rig) change(by func(d *changed)) {
	r.Wrap = func(b verbs.Backend) verbs.Backend { return changing{b, by} }
}

type changing struct {
	verbs.Backend
	by func(d *changed)
}

func (b changing) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	d, err := b.Backend.Open(name, led)
	if err != nil {
		return nil, err
	}
	c := &changed{d, d.Commands(), d.QueryPort, d.QueryQP, d.ReadCounters, d.AskLink, d.ListObjects}
	b.by(c)
	return c, nil
}

// With some drivers each file of counters is a command.
func TestNothingIsAskedUnderTheRTNLLockAfterACounterThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "roce2", cableDown)
		r.change(func(d *changed) {
			d.readCounters = func(port int, from verbs.CounterSource) (map[string]uint64, error) {
				if from == verbs.CountersPort {
					return nil, unix.ETIMEDOUT
				}
				return d.Device.ReadCounters(port, from)
			}
		})
		r.Start(nil)
		explained, _ := completeSnapshots(r.After(35 * time.Second))
		require.Len(t, explained, 1)
		require.Nil(t, explained[0].Link)
		const why = "the device answered a command with: connection timed out"
		require.Equal(t, []string{"counters: connection timed out", "aer: " + why, "ext_state: " + why}, explained[0].LeftOut)
	})
}

// After one failed read bnxt_re's counters never change again, so the device is asked something
// else first.
func TestADeviceWhoseCountersAreNoQuestionIsAskedForAQueuePairFirst(t *testing.T) {
	for _, failure := range []error{nil, unix.ETIMEDOUT} {
		synctest.Test(t, func(t *testing.T) {
			var queries, reads atomic.Int32
			r := newSnapshotRig(t, "roce2", "")
			r.change(func(d *changed) {
				d.commands = verbs.NewCommandSet(verbs.CommandQueryQP)
				d.queryQP = func(int) error {
					queries.Add(1)
					return failure
				}
				d.readCounters = func(port int, from verbs.CounterSource) (map[string]uint64, error) {
					reads.Add(1)
					return d.Device.ReadCounters(port, from)
				}
			})
			r.Start(nil)
			_, bases := completeSnapshots(r.After(time.Second))
			require.Equal(t, 1, bases)
			require.EqualValues(t, 1, queries.Load())
			require.Equal(t, failure == nil, reads.Load() > 0)
		})
	}
}

// otherHangs is a device that stops answering another goroutine's call while the port's counters
// are read.
type otherHangs struct {
	verbs.Device
	hangs func()
}

func (d otherHangs) ReadCounters(port int, from verbs.CounterSource) (map[string]uint64, error) {
	if from == verbs.CountersPort {
		d.hangs()
	}
	return map[string]uint64{"x": 1}, nil
}

func (otherHangs) Attr() verbs.DeviceAttr { return verbs.DeviceAttr{Ports: 1} }

func (otherHangs) Commands() verbs.CommandSet { return verbs.NewCommandSet(verbs.CommandHWCounters) }

func (otherHangs) ReadNetDev(int) (verbs.NetDev, error) {
	return verbs.NetDev{Name: "eth0", AdminUp: true, HasCarrier: true}, nil
}

func TestNothingIsAskedUnderTheRTNLLockOnceAnotherCommandHangs(t *testing.T) {
	var a *Asker
	var last verbs.Snapshot
	a = NewAsker(AskerConfig{
		Device:  otherHangs{hangs: func() { a.slow.Add(1) }},
		Options: verbs.Options{SnapshotInterval: time.Minute, Ethtool: verbs.EthtoolAll},
		Clock:   hostClock{}, Send: func(i verbs.Item) bool { last = *i.Snapshot; return true }, OnStuck: func() {}, OnSnapshotDue: func() {}, OnRTNLFree: func() {},
	})
	a.RequestSnapshot(1, "port_err", 1)
	_, err := a.TakeSnapshots(nil)
	require.NoError(t, err)
	require.True(t, last.Done)
	require.Equal(t, []string{
		"ext_state: the device is not answering another command", "fec: the device is not answering another command",
		"ethtool: the device is not answering another command",
	}, last.LeftOut)
}

// Many drivers take the lock for a query, too, and the device cannot be closed before the query ends.
func TestNoPortIsQueriedWhileACallOfOursHoldsTheRTNLLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queries atomic.Int32
		var holding atomic.Bool
		held := make(chan struct{})
		r := newSnapshotRig(t, "roce2", cableDown)
		r.Options.StateInterval = time.Second
		r.change(func(d *changed) {
			d.link = func(int) (verbs.Link, error) {
				holding.Store(true)
				defer holding.Store(false)
				<-held
				return verbs.Link{ExtState: "no_cable"}, nil
			}
			d.queryPort = func(port int) (verbs.PortAttr, error) {
				if holding.Load() {
					queries.Add(1)
				}
				return d.Device.QueryPort(port)
			}
		})
		r.Start(nil)
		r.After(35 * time.Second)
		items := r.After(10 * time.Second)
		require.Zero(t, queries.Load())
		require.Empty(t, sessiontest.Readings(items))
		require.NotEmpty(t, sessiontest.Pick(items, func(i verbs.Item) *verbs.Run { return i.Run }), "events are read")
		close(held)
		items = r.After(500 * time.Millisecond)
		require.NotEmpty(t, sessiontest.Readings(items), "the queries are made up for")
		explained, _ := completeSnapshots(append(items, r.After(time.Second)...))
		require.Len(t, explained, 1)
		require.Equal(t, "no_cable", explained[0].Link.ExtState)
	})
}
