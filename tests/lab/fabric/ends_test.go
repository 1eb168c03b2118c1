//go:build guest

package fabric

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// TestKilledProcessesLoseNoProbeAndNoEvent kills workers and plugins while all others probe. Of each point of each host it is
// required besides that its counts add up, and that no counter falls while a plugin runs.
func TestKilledProcessesLoseNoProbeAndNoEvent(t *testing.T) {
	f := startFleet(t, plan{})
	kills := 30
	if testing.Short() {
		kills = 3
	}
	rng := rand.New(rand.NewPCG(rig.Seed(t), 0))
	var met []time.Duration
	for i := range kills {
		h := f.hosts[rng.IntN(f.net.Hosts())+1]
		pauseTest(t, time.Duration(rng.Int64N(int64(time.Second))))
		killed := time.Now()
		victim := "the worker"
		if i%3 == 2 {
			victim = "the plugin"
			h.kill()
			h.start()
		} else {
			f.signal(h.worker(), syscall.SIGKILL)
			guest.Eventually(t, "another session of "+h.name, time.Minute, func() bool { return len(f.since(killed)) > 0 })
		}
		h.awaitOpen()
		f.awaitMet(h.number, killed)
		met = append(met, time.Since(killed))
		t.Logf("%s of %s: all its pairs are well after %v", victim, h.name, round(met[len(met)-1]))
	}
	t.Logf("%d kills; all pairs well after %s", kills, durationSpread(met))
	f.settle(3)
	var unknown, released int64
	for _, h := range f.hosts[1:] {
		unknown, released = unknown+h.port().Int("unknown_lost"), released+h.port().Int("released")
	}
	t.Logf("in the last lives of the plugins %d probes are lost for unknown reasons and %d events are released", unknown, released)
	f.requireNoNetworkVerdict(time.Time{})
}

// awaitMet waits until all pairs with a host have begun anew after a moment, and are well.
func (f *fleet) awaitMet(host int, since time.Time) {
	f.t.Helper()
	f.awaitVerdict("ok", since, 3*time.Minute, withHost(host))
}

// TestADeviceGoesWhilePairsRun deletes the device of a host, which waits until the worker has closed it, and adds it again.
func TestADeviceGoesWhilePairsRun(t *testing.T) {
	f := startFleet(t, plan{})
	rounds := 10
	if testing.Short() {
		rounds = 1
	}
	var took []time.Duration
	for i := range rounds {
		host := i%f.net.Hosts() + 1
		began := time.Now()
		guest.DeleteLink(t, f.net.Device(host))
		took = append(took, time.Since(began))
		// The host may report peer_port first, if its echoes fail before the peer reports that the device is gone.
		f.await("that the peer has no matching device", began, time.Minute, toHost(host), func(s said) bool {
			return s.Text("reason") == "unsupported"
		})
		f.net.AddDevice(host)
		added := time.Now()
		f.awaitMet(host, added)
		t.Logf("%s: deleted in %v; all its pairs are well %v after it is back", f.net.Device(host), round(took[i]), elapsedBetween(added, time.Now()))
	}
	checkDuration(t, fmt.Sprintf("rdma link delete beside pairs that run, the longest of %d", rounds), slices.Max(took), time.Second)
	f.requireNoNetworkVerdict(time.Time{})
}
