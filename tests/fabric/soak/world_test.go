package soak

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/fabric/pinglist"
)

// world is hosts with the networks between them. It lives in a bubble of synctest.
type world struct {
	t          *testing.T
	began      time.Time
	tcp        *network
	authority  *authority
	hosts      []*host
	running    sync.WaitGroup // faults
	keys       chan struct{}  // held by the fault that changes keys
	generation int            // of the keys

	mu      sync.Mutex
	devices map[*worker]struct{} // that have not ended
	answers map[answerKey]*side
	severed map[link]int  // RDMA packets between two hosts are lost
	doubled map[link]bool // each RDMA packet between two hosts arrives twice
	truth
	journal []string
	wrong   []string

	randomMu sync.Mutex
	random   *rand.Rand
}

// newWorld returns a world whose hosts do not run yet.
func newWorld(t *testing.T, p *plan) *world {
	w := &world{
		t: t, began: time.Now(), tcp: newNetwork(), keys: make(chan struct{}, 1), devices: map[*worker]struct{}{},
		answers: map[answerKey]*side{}, severed: map[link]int{}, doubled: map[link]bool{},
		truth: newTruth(), random: rand.New(rand.NewPCG(p.seed, 2)),
	}
	if p.certificates {
		w.authority = newAuthority(t)
	}
	dir := t.TempDir()
	for i, s := range p.hosts {
		w.hosts = append(w.hosts, newHost(w, i, s, dir))
	}
	for _, h := range w.hosts {
		h.list = w.list(p, nil)
		w.setList(h.name, h.list)
	}
	return w
}

// list returns the list of all hosts without some.
func (w *world) list(p *plan, without map[string]bool) *pinglist.List {
	var b strings.Builder
	for i, s := range p.hosts {
		if !without[hostName(i)] {
			fmt.Fprintf(&b, "%s %s\n", hostName(i), s.group)
		}
	}
	l, err := pinglist.ParseList(strings.NewReader(b.String()))
	require.NoError(w.t, err)
	return l
}

func hostName(i int) string { return fmt.Sprintf("h%d", i) }

// uint64 returns random bits, and chance a random time below a limit.
func (w *world) uint64() uint64 {
	w.randomMu.Lock()
	defer w.randomMu.Unlock()
	return w.random.Uint64()
}

func (w *world) chance(limit time.Duration) time.Duration {
	return time.Duration(w.uint64() % uint64(limit))
}

// note adds a line to the journal, which a seed that fails prints.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(format, args...)
}

func (w *world) noteLocked(format string, args ...any) {
	w.journal = append(w.journal, fmt.Sprintf("%11s  ", time.Since(w.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// fault notes something that must not be.
func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faultLocked(format, args...)
}

func (w *world) faultLocked(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(w.wrong) == mostWrong || slices.Contains(w.wrong, text) {
		return
	}
	w.wrong = append(w.wrong, text)
	w.noteLocked("WRONG: %s", text)
}

// mostWrong is how much may be wrong until a seed ends early.
const mostWrong = 8

func (w *world) hasFailed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.wrong) == mostWrong
}

// others returns the links between a host and all others.
func (w *world) others(host string) (all []link) {
	for _, h := range w.hosts {
		if h.name != host {
			all = append(all, linkOf(host, h.name))
		}
	}
	return all
}

// links returns all links.
func (w *world) links() (all []link) {
	for i, a := range w.hosts {
		for _, b := range w.hosts[:i] {
			all = append(all, linkOf(a.name, b.name))
		}
	}
	return all
}

func (w *world) host(name string) *host {
	for _, h := range w.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

var silent = slog.New(slog.DiscardHandler)
