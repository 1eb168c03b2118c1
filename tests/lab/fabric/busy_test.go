//go:build guest

package fabric

import (
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/lab/fabric/rpingmesh"
)

// A pulse stops a process and lets it go on.
const (
	pulseStopped = 400 * time.Millisecond
	pulseRuns    = 150 * time.Millisecond
)

// TestStoppedAndBusyHostsAreNotTakenForTheNetwork stops workers and plugins in pulses, and lets programs use all of the CPU.
// R-Pingmesh's formula judges the same packets.
func TestStoppedAndBusyHostsAreNotTakenForTheNetwork(t *testing.T) {
	f := startFleet(t, plan{})
	f.settleProbes()
	beside := startFormula(f)
	lasting, calm := 10*time.Minute, time.Minute
	if testing.Short() {
		lasting, calm = time.Minute, 20*time.Second
	}
	began := time.Now()
	pauseTest(t, calm)
	// What the formula says while nothing is wrong is what its threshold is made of.
	faulty := time.Now()
	threshold := beside.threshold(began, faulty)
	phases := []func(victim int, lasting time.Duration){
		func(victim int, lasting time.Duration) { // the worker's
			pulseProcesses(t, lasting, f.hosts[victim].worker())
		},
		func(victim int, lasting time.Duration) { // the plugin's
			pulseProcesses(t, lasting, f.hosts[victim].plugin.PID())
		},
		func(_ int, lasting time.Duration) { useAllCPU(t, lasting) },
		func(victim int, lasting time.Duration) { // of both, and no CPU for the others
			stop := make(chan struct{})
			go func() {
				defer close(stop)
				useAllCPU(t, lasting)
			}()
			pulseProcesses(t, lasting, f.hosts[victim].worker(), f.hosts[victim].plugin.PID())
			<-stop
		},
	}
	for i := 0; time.Since(faulty) < lasting; i++ {
		phases[i%len(phases)](i%f.net.Hosts()+1, 15*time.Second)
	}
	said := f.since(began)
	t.Logf("in %v of faults the fabric said: %v", time.Since(faulty).Round(time.Second), verdictCounts(said))
	f.requireNoNetworkVerdict(began)
	calmBlames, blames := beside.judge(began, faulty, threshold), beside.judge(faulty, time.Now(), threshold)
	t.Logf("R-Pingmesh's formula, of the same packets: threshold %v, %d times the median while nothing was wrong; blamed the network %d times for %d hosts in "+
		"%d periods while nothing was wrong, and %d times during the faults: %v", threshold, factor, len(calmBlames), f.net.Hosts(),
		int(calm/rpingmesh.Period), len(blames), blameCounts(blames))
	f.awaitWell(2*time.Minute, allPairs)
}

func blameCounts(blames []rpingmesh.Blame) map[rpingmesh.Why]int {
	n := map[rpingmesh.Why]int{}
	for _, b := range blames {
		n[b.Why]++
	}
	return n
}

// pulseProcesses repeatedly stops processes and lets them continue, all at the same time, until lasting has passed.
func pulseProcesses(t *testing.T, lasting time.Duration, pids ...int) {
	t.Helper()
	signal := func(s syscall.Signal) {
		for _, pid := range pids {
			if pid == 0 {
				t.Fatal("there is no process to stop")
			}
			if err := syscall.Kill(pid, s); err != nil {
				t.Fatalf("signal process %d: %v", pid, err)
			}
		}
	}
	for end := time.Now().Add(lasting); time.Now().Before(end); {
		signal(syscall.SIGSTOP)
		pauseTest(t, pulseStopped)
		signal(syscall.SIGCONT)
		pauseTest(t, pulseRuns)
	}
}

// useAllCPU runs more loops than there are processors.
func useAllCPU(t *testing.T, lasting time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	var loops []*exec.Cmd
	for range 4 {
		loop := exec.CommandContext(ctx, "/bin/sh", "-c", "while :; do :; done")
		if err := loop.Start(); err != nil {
			t.Error(err)
			continue
		}
		loops = append(loops, loop)
	}
	for _, loop := range loops {
		_ = loop.Wait() // it is killed
	}
}

// pauseTest waits for a fixed time while a fault lasts.
func pauseTest(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal("the test was ended")
	}
}
