//go:build guest

package system

import (
	"syscall"
	"time"

	"rdma_events/tests/lab/guest"
)

// longestRecovery is the longest time for the replacement of a worker on an
// emulated CPU. The first delay before a restart is 250 ms.
const longestRecovery = 10 * time.Second

// wellAfter is a little longer than the time after which a running worker's next
// restart has the first delay again.
const wellAfter = 75 * time.Second

// fault is one kind of fault. do causes it and returns true when it is over, or
// returns false if it is not possible now.
type fault struct {
	name string
	do   func(*soak) bool
}

func soakFaults() []fault {
	return []fault{
		{"flaps of a link", (*soak).flap},
		{"a burst of events", (*soak).burst},
		{"kill -9 of a worker", (*soak).killWorker},
		{"a device deleted and added", (*soak).replaceDevice},
		{"a device renamed and back", (*soak).renameDevice},
		{"Telegraf stopped in a burst", (*soak).stopTelegraf},
	}
}

// anyDevice returns one of the devices at random.
func (s *soak) anyDevice() string {
	return []string{moving, killed, steady}[s.rand.IntN(3)]
}

func (s *soak) flap() bool {
	s.flapFor(s.anyDevice(), 3+s.rand.IntN(10))
	return true
}

// flapFor takes a link down times times, ten times a second.
func (s *soak) flapFor(name string, times int) {
	s.t.Helper()
	down := time.Duration(5+s.rand.IntN(50)) * time.Millisecond
	flaps := guest.Flaps{Count: times, Down: down, Period: 100 * time.Millisecond}
	if _, err := guest.FlapLink(s.t.Context(), soakNetdevs()[name], flaps); err != nil {
		s.t.Fatal(err)
	}
}

func (s *soak) burst() bool {
	s.inject(s.anyDevice(), 1+s.rand.IntN(50_000))
	return true
}

func (s *soak) inject(name string, events int) {
	s.t.Helper()
	guest.Inject(s.t, name, guest.PKeyChange, 1, events)
	s.injected[name] += int64(events)
}

func (s *soak) killWorker() bool {
	if time.Since(s.killedAt) < wellAfter {
		return false
	}
	opens := s.seen.device(killed).Int("opens")
	s.killedAt = time.Now()
	killProcess(s.t, workerOf(s.t, s.r, killed))
	s.awaitOpen(killed, opens+1)
	open := time.Unix(0, s.seen.openedAt[killed])
	s.recovery = max(s.recovery, open.Sub(s.killedAt))
	return true
}

func (s *soak) awaitOpen(name string, opens int64) {
	s.t.Helper()
	s.await(name+" is open again", func(seen *tally) bool {
		return seen.device(name).Int("open") == 1 && seen.device(name).Int("opens") == opens
	})
}

func (s *soak) awaitGone(name, reason string) {
	s.t.Helper()
	s.await(name+" is "+reason, func(seen *tally) bool {
		return seen.device(name).Int("open") == 0 && seen.device(name).Text("reason") == reason
	})
}

func (s *soak) replaceDevice() bool {
	opens := s.seen.device(moving).Int("opens")
	s.admin.deleteLink()
	s.awaitGone(moving, "deleted")
	s.admin.addLink()
	s.awaitOpen(moving, opens+1)
	return true
}

func (s *soak) renameDevice() bool {
	const other = "moved0"
	opens := s.seen.device(moving).Int("opens")
	others := max(s.seen.device(other).Int("opens"), 0)
	s.admin.rename(moving, other)
	s.awaitGone(moving, "renamed")
	s.awaitOpen(other, others+1)
	s.inject(other, 1+s.rand.IntN(1000))
	s.await("the events of "+other, func(seen *tally) bool { return seen.counter(other) == s.injected[other] })
	s.admin.rename(other, moving)
	s.awaitGone(other, "renamed")
	s.awaitOpen(moving, opens+1)
	return true
}

// stopTelegraf flaps a link and injects events while Telegraf does not read.
func (s *soak) stopTelegraf() bool {
	sendSignal(s.t, s.r.PID(), syscall.SIGSTOP)
	defer sendSignal(s.t, s.r.PID(), syscall.SIGCONT)
	s.flapFor(s.anyDevice(), 10+s.rand.IntN(40))
	s.inject(s.anyDevice(), 1+s.rand.IntN(100_000))
	return true
}
