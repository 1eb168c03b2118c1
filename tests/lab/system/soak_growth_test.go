//go:build guest

package system

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rdma_events/tests/rig"
)

// The bounds of growth from the second quarter of a soak to the last one. Growth is
// the difference of the medians of samples in the settled state. Go keeps threads
// that it once needed, so their number may still rise to the greatest number that
// was needed at once.
const (
	memoryGrowth = 3 << 20
	threadGrowth = 4
)

// sample is what each process holds at one time, by the name of the process.
type sample map[string]held

// held has figures of a process that grow if it leaks.
type held struct{ memory, threads int64 }

// processes returns the process IDs of Telegraf, the plugin and its workers, by
// name.
func (s *soak) processes() map[string]int {
	s.t.Helper()
	all := map[string]int{"Telegraf": s.r.PID(), "the plugin": 0}
	for _, plugin := range rig.Children(s.t, s.r.PID()) {
		all["the plugin"] = plugin
	}
	for name := range soakNetdevs() {
		all["the worker of "+name] = workerOf(s.t, s.r, name)
	}
	for name, pid := range all {
		if pid == 0 {
			s.t.Fatalf("%s is not there", name)
		}
	}
	return all
}

func (s *soak) sample() sample {
	s.t.Helper()
	now := sample{}
	for name, pid := range s.processes() {
		now[name] = held{memory: rig.Memory(s.t, pid, "RssAnon"), threads: rig.Threads(s.t, pid)}
	}
	return now
}

// requireNoGrowth compares the last samples with earlier ones. Telegraf's own
// growth is logged, but the test does not fail for it.
func (s *soak) requireNoGrowth(before, after []sample) {
	s.t.Helper()
	if len(before) == 0 || len(after) == 0 {
		s.t.Fatal("no fault happened in a quarter of the time")
	}
	for _, name := range slices.Sorted(maps.Keys(before[0])) {
		was, is := medianHeld(before, name), medianHeld(after, name)
		s.t.Logf("soak, growth of %s: memory %+.2f MiB to %.2f, threads %+d to %d", name,
			mib(is.memory-was.memory), mib(is.memory), is.threads-was.threads, is.threads)
		if name == "Telegraf" {
			continue
		}
		if is.memory > was.memory+memoryGrowth || is.threads > was.threads+threadGrowth {
			s.t.Errorf("%s: want at most %.0f MiB and %d threads more, got %.2f MiB and %d, before %.2f MiB and %d", name,
				mib(memoryGrowth), threadGrowth, mib(is.memory), is.threads, mib(was.memory), was.threads)
		}
	}
}

// medianHeld returns the medians of a process's memory and threads over the samples.
func medianHeld(samples []sample, name string) held {
	var memory, threads []int64
	for _, s := range samples {
		memory, threads = append(memory, s[name].memory), append(threads, s[name].threads)
	}
	return held{quantile(memory, 0.5), quantile(threads, 0.5)}
}

// hold has what must not grow at all, by process: its files of each kind, its
// children and its mapped memfds. The entry "all" has the sockets and directories of
// the plugin, and the processes for which no parent has waited.
type hold map[string]rig.Footprint

// settledHold returns what is held in the settled state. If before is not nil, it
// waits until no more is held than before, and fails the test if that takes more
// than 30 seconds.
func (s *soak) settledHold(before hold) hold {
	s.t.Helper()
	s.awaitSettled("a quarter")
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	now := s.holdNow()
	for range 30 {
		if before == nil || now.moreThan(before) == "" {
			break
		}
		<-poll.C
		now = s.holdNow()
	}
	if before == nil {
		return now
	}
	s.t.Logf("soak, held: %s; after the first quarter %s", now, before)
	if more := now.moreThan(before); more != "" {
		s.t.Errorf("more is held than after the first quarter: %s", more)
	}
	return now
}

func (s *soak) holdNow() hold {
	s.t.Helper()
	now := hold{}
	zombies := 0
	for name, pid := range s.processes() {
		now[name] = rig.FootprintOf(s.t, pid)
		zombies += len(rig.Zombies(s.t, pid))
	}
	delete(now, "Telegraf")
	now["all"] = rig.Footprint{"runtime files": runtimeFiles(s.t), "zombies": zombies}
	return now
}

func (h hold) moreThan(before hold) string {
	var more string
	for name, is := range h {
		if text := is.MoreThan(before[name]); text != "" {
			more += name + ": " + text + "; "
		}
	}
	return more
}

func (h hold) String() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		sum := 0
		for _, n := range h[name] {
			sum += n
		}
		texts = append(texts, fmt.Sprintf("%s %d", name, sum))
	}
	return strings.Join(texts, ", ")
}
