package session

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// restricted is a backend whose firmware refuses reads, as the firmware of restricted functions does.
type restricted struct {
	verbs.Backend
	queries bool // it refuses queries of ports too

	mu      sync.Mutex
	refused []time.Time
	open    bool // it refuses nothing any more
}

func (r *restricted) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	d, err := r.Backend.Open(name, led)
	return &restrictedDevice{d, r}, err
}

// refuse counts a refused read.
func (r *restricted) refuse(what string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open {
		return nil
	}
	r.refused = append(r.refused, time.Now())
	return fmt.Errorf("%s: %w", what, unix.EINVAL)
}

func (r *restricted) since(at time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.refused, func(t time.Time) bool { return !t.Before(at) })
	if i < 0 {
		return 0
	}
	return len(r.refused) - i
}

func (r *restricted) relent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = true
}

type restrictedDevice struct {
	verbs.Device
	r *restricted
}

func (d *restrictedDevice) QueryPort(port int) (verbs.PortAttr, error) {
	if d.r.queries {
		if err := d.r.refuse("ibv_query_port"); err != nil {
			return verbs.PortAttr{}, err
		}
	}
	return d.Device.QueryPort(port)
}

func (d *restrictedDevice) NewProbe(c verbs.ProbeConfig) (verbs.Probe, error) {
	if _, err := d.QueryPort(c.Port); err != nil { // as package native does
		return nil, err
	}
	return d.Device.NewProbe(c)
}

func (d *restrictedDevice) ReadCounter(port int) error {
	if err := d.r.refuse("hw_counter"); err != nil {
		return err
	}
	return d.Device.ReadCounter(port)
}

func (d *restrictedDevice) ReadCounters(port int, from verbs.CounterSource) (map[string]uint64, error) {
	if from == verbs.CountersPCI {
		return d.Device.ReadCounters(port, from)
	}
	if err := d.r.refuse(string(from)); err != nil {
		return nil, fmt.Errorf("%w: %w", verbs.ErrUnsupported, err)
	}
	return d.Device.ReadCounters(port, from)
}

func (d *restrictedDevice) QueryQP(int) error { return fmt.Errorf("%w: none", verbs.ErrUnsupported) }

// watchRestricted watches a device of mlx5 that refuses reads.
func watchRestricted(t *testing.T, queries bool, test func(*testing.T, *rig, *restricted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "mlx5", "")
		r.Options.CommandInterval, r.Options.CommandStuck, r.Options.SnapshotInterval = 10*time.Second, 5*time.Second, time.Minute
		b := &restricted{queries: queries}
		r.Wrap = func(inner verbs.Backend) verbs.Backend { b.Backend = inner; return b }
		r.Start(nil)
		test(t, r, b)
	})
}

func TestReadsThatFirmwareRefusesAreFewAnHour(t *testing.T) {
	for _, queries := range []bool{true, false} {
		t.Run(fmt.Sprintf("queries refused: %t", queries), func(t *testing.T) {
			watchRestricted(t, queries, func(t *testing.T, r *rig, b *restricted) {
				items := r.After(time.Minute)
				require.NotZero(t, b.since(time.Time{}))
				for range 5 {
					begin := time.Now()
					items = append(items, r.After(time.Hour)...)
					require.LessOrEqual(t, b.since(begin), verbs.RefusalsAnHour)
				}
				require.NotZero(t, b.since(time.Now().Add(-2*time.Hour)), "they are tried again")
				failed, refused := 0, ""
				for _, it := range items {
					if it.Reading != nil {
						refused = it.Reading.Refused
						if it.Reading.Err != "" {
							failed++
						}
					}
				}
				if queries {
					require.LessOrEqual(t, failed, verbs.RefusalRow+5*verbs.RefusalsAnHour, "a query that was not made is no failure")
				} else {
					require.Zero(t, failed)
				}
				require.Contains(t, refused, "(EINVAL)")
				select {
				case <-r.Done:
					require.FailNow(t, "the watch has ended")
				default:
				}
			})
		})
	}
}

func TestRefusedReadIsMadeAgainAfterAnEvent(t *testing.T) {
	watchRestricted(t, true, func(t *testing.T, r *rig, b *restricted) {
		r.After(20 * time.Minute)
		b.relent()
		for _, it := range r.After(10 * time.Minute) {
			require.Nil(t, it.Reading, "it is due in an hour")
		}
		require.NoError(t, r.World.Inject("sim0", verbs.EventClientReregister, 1, 1))
		answered := 0
		for _, it := range r.After(time.Minute) {
			if it.Reading != nil && it.Reading.Err == "" {
				answered++
			}
		}
		require.Greater(t, answered, 5, "the firmware answers, and queries go on as before")
	})
}
