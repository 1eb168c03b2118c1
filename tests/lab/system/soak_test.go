//go:build guest

package system

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// The devices of the soak. Different faults have different devices, so that growth
// is visible: the worker of steady runs from the beginning to the end, the worker
// of killed is replaced after kill -9, and moving is deleted, added and renamed.
const (
	moving = device
	killed = "rdma1"
	steady = "rdma2"
)

// soakNetdevs returns the netdev of each device.
func soakNetdevs() map[string]string {
	return map[string]string{moving: netdev, killed: "d1", steady: "d2"}
}

// TestSoak runs the plugin under Telegraf with one fault after the other. After each
// fault it waits until all devices are open and every event is counted. It fails if
// the processes hold more in the last quarter than in the second. The first quarter
// is for warming up.
func TestSoak(t *testing.T) {
	length, seed := soakLength(t), soakSeed(t)
	t.Logf("soak, length: %v", length)
	t.Logf("soak, seed: %d", seed)
	guest.RequireGuest(t)
	for _, name := range []string{moving, killed, steady} {
		guest.AddDevice(t, name, guest.Driver(), soakNetdevs()[name])
	}
	goroutines := calmGoroutines(t)
	s := startSoak(t, seed)
	began := time.Now()
	quarter := func(n time.Duration) time.Time { return began.Add(length * n / 4) }
	s.run(quarter(1))
	first := s.settledHold(nil)
	second := s.run(quarter(2))
	s.run(quarter(3))
	last := s.run(quarter(4))
	s.settledHold(first)
	s.requireNoGrowth(second, last)
	s.requireCounted()
	if now := s.r.CountGoroutines(); goroutines == 0 || now > goroutines+2 {
		t.Errorf("want %d goroutines as in a plugin that has just been started, got %d", goroutines, now)
	} else {
		t.Logf("soak, goroutines of the plugin: %d, in one that has just been started %d", now, goroutines)
	}
	s.r.Stop()
}

func soakLength(t *testing.T) time.Duration {
	t.Helper()
	length, err := time.ParseDuration(os.Getenv("RDMA_EVENTS_SOAK"))
	if err != nil || length < time.Minute {
		t.Fatalf("RDMA_EVENTS_SOAK=%q: want a duration of at least 1m; run: make soak FOR=10m", os.Getenv("RDMA_EVENTS_SOAK"))
	}
	return length
}

// soakSeed returns a random seed, unless the environment has the seed of a run to
// repeat.
func soakSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("RDMA_EVENTS_SOAK_SEED")
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("RDMA_EVENTS_SOAK_SEED=%q: want a whole number", text)
	}
	return seed
}

const soakPlugin = `[[inputs.rdma_events]]
  [inputs.rdma_events.probe]
    interval = "250ms"
    timeout = "200ms"
    histogram = true
`

func soakTelegraf(t *testing.T) *rig.Telegraf {
	t.Helper()
	return rig.Start(t, rig.Config{Plugin: soakPlugin, Prefix: users[1].prefix, Interval: "500ms", KeepStderr: true})
}

// calmGoroutines returns how many goroutines a plugin has without any fault.
func calmGoroutines(t *testing.T) int {
	t.Helper()
	r := soakTelegraf(t)
	for name := range soakNetdevs() {
		awaitOpen(r, name)
		awaitRounds(r, name, 20)
	}
	defer r.Stop()
	return r.CountGoroutines()
}

// soak is a run of the plugin under faults.
type soak struct {
	t        *testing.T
	r        *rig.Telegraf
	admin    *admin
	rand     *rand.Rand
	seen     *tally
	injected map[string]int64 // events, by device
	happened map[string]int   // faults, by name
	bag      []fault          // the remaining faults of this round
	killedAt time.Time        // the last kill -9
	recovery time.Duration    // the longest recovery after a kill -9
}

func startSoak(t *testing.T, seed uint64) *soak {
	t.Helper()
	s := &soak{
		t: t, admin: newAdmin(t), rand: rand.New(rand.NewPCG(seed, 0)), seen: newTally(),
		injected: map[string]int64{}, happened: map[string]int{},
	}
	s.r = soakTelegraf(t)
	s.awaitSettled("the start")
	return s
}

// run causes faults until a time, each kind once per round. It returns a sample of
// the settled state after each fault.
func (s *soak) run(until time.Time) []sample {
	var samples []sample
	for time.Now().Before(until) {
		if len(s.bag) == 0 {
			s.bag = soakFaults()
			s.rand.Shuffle(len(s.bag), func(i, j int) { s.bag[i], s.bag[j] = s.bag[j], s.bag[i] })
		}
		next := s.bag[0]
		s.bag = s.bag[1:]
		if next.do(s) {
			s.happened[next.name]++
			s.awaitSettled(next.name)
			samples = append(samples, s.sample())
		}
	}
	return samples
}

// awaitSettled waits until all devices are open, their ports are up and all events
// are counted.
func (s *soak) awaitSettled(after string) {
	s.t.Helper()
	s.await("the settled state after "+after, func(seen *tally) bool {
		for name := range soakNetdevs() {
			if seen.device(name).Int("open") != 1 || seen.port(name).Int("up") != 1 {
				return false
			}
		}
		for name, want := range s.injected {
			if seen.counter(name) != want || seen.sum(name) != want {
				return false
			}
		}
		return true
	})
}

// await waits until cond holds for the tally of Telegraf's points.
func (s *soak) await(what string, cond func(*tally) bool) {
	s.t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for began := time.Now(); ; <-poll.C {
		for _, p := range s.r.NewPoints() {
			s.seen.add(s.t, p)
		}
		if cond(s.seen) {
			return
		}
		if time.Since(began) > time.Minute {
			s.t.Fatalf("%s: not within a minute; faults so far: %v\n%s\nthe log:\n%s", what, s.happened, s.seen, s.r.Stderr())
		}
	}
}

func (s *soak) requireCounted() {
	s.t.Helper()
	var injected, counted int64
	for name, n := range s.injected {
		injected += n
		counted += s.seen.counter(name)
	}
	requireEqual(s.t, "events counted", injected, counted)
	d := s.seen.device(steady)
	requireEqual(s.t, "opens of "+steady, 1, d.Int("opens"))
	requireEqual(s.t, "restarts of the worker of "+steady, 0, d.Int("worker_restarts"))
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(s.happened)) {
		faults = append(faults, fmt.Sprintf("%d times %s", s.happened[name], name))
	}
	s.t.Logf("soak, faults: %s", strings.Join(faults, ", "))
	s.t.Logf("soak, events injected: %d", injected)
	s.t.Logf("soak, events counted: %d", counted)
	s.t.Logf("soak, worst delay of an admin's command: %v", s.admin.worstDelay().Round(time.Millisecond))
	s.t.Logf("soak, worst recovery after kill -9 of a worker: %v", s.recovery.Round(time.Millisecond))
	if s.happened["kill -9 of a worker"] == 0 || s.recovery > longestRecovery {
		s.t.Errorf("recovery after kill -9: want one at least, all within %v, got %v of %d", longestRecovery, s.recovery,
			s.happened["kill -9 of a worker"])
	}
}
