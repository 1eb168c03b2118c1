package process

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/status"
)

// fakeProcess is a process that follows its script, in a synctest bubble.
type fakeProcess struct {
	deliver  func(message) error
	streamed chan struct{}
	started  chan struct{}
	slow     chan struct{} // nil: the start is not slow
	done     chan struct{}
	rep      report
	once     sync.Once

	mu       sync.Mutex
	deaf     bool // Ask has no effect
	immortal bool // Kill has no effect
	asked    time.Time
	killed   time.Time
}

// send sends a message to the Supervisor. The Supervisor refuses messages of a process that it has left.
func (p *fakeProcess) send(m message) { _ = p.deliver(m) }

func newFakeProcess(deliver func(message) error) *fakeProcess {
	return &fakeProcess{deliver: deliver, streamed: make(chan struct{}), started: make(chan struct{}), done: make(chan struct{})}
}

func (p *fakeProcess) PID() int                  { return 4711 }
func (p *fakeProcess) Streamed() <-chan struct{} { return p.streamed }
func (p *fakeProcess) Started() <-chan struct{}  { return p.started }
func (p *fakeProcess) Slow() <-chan struct{}     { return p.slow }
func (p *fakeProcess) Step() string              { return "loading" }
func (p *fakeProcess) Done() <-chan struct{}     { return p.done }
func (p *fakeProcess) Report() *report           { return &p.rep }

func (p *fakeProcess) Ask() {
	if p.note(&p.asked, &p.deaf) {
		p.die(0)
	}
}

func (p *fakeProcess) Kill() {
	if p.note(&p.killed, &p.immortal) {
		p.die(unix.SIGKILL)
	}
}

// note records when Ask or Kill was called, and reports whether the call has an effect.
func (p *fakeProcess) note(when *time.Time, ignored *bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	*when = time.Now()
	return !*ignored
}

func (p *fakeProcess) set(deaf, immortal bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf, p.immortal = deaf, immortal
}

func (p *fakeProcess) times() (asked, killed time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, p.killed
}

func (p *fakeProcess) die(by unix.Signal) {
	p.once.Do(func() {
		p.rep.PID, p.rep.Shook, p.rep.Status = 4711, true, syscall.WaitStatus(by)
		close(p.streamed)
		close(p.done)
	})
}

// script controls one process; it runs in a goroutine of its own.
type script func(p *fakeProcess)

func crash(p *fakeProcess) { p.die(unix.SIGSEGV) }

func openOnly(p *fakeProcess) { p.send("opened") }

func endWith(why status.Reason) script {
	return func(p *fakeProcess) {
		p.send(endedMessage(why, "mlx5_0: "+string(why)))
	}
}

// runFor beats for d and then crashes.
func runFor(d time.Duration) script {
	return func(p *fakeProcess) {
		p.send("opened")
		for end := time.Now().Add(d); time.Now().Before(end); {
			select {
			case <-time.After(time.Second):
				p.send("beat")
			case <-p.done:
				return
			}
		}
		crash(p)
	}
}

// bubble is a Supervisor whose processes follow one script each. Further processes follow the last script.
type bubble struct {
	*recorder
	*Supervisor[message]
	born    []*fakeProcess
	births  []time.Time
	cancel  context.CancelFunc
	over    chan error
	gone    atomic.Bool // the resource is not there
	starved atomic.Bool // isRunnable is true for the processes
}

func inBubble(t *testing.T, test func(t *testing.T, b *bubble), scripts ...script) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{recorder: newRecorder(), over: make(chan error, 1)}
		c := testSpec()
		c.Log, c.Rand, c.Present = b.logger(), func() float64 { return 0.5 }, func() bool { return !b.gone.Load() }
		b.Supervisor = New(c, &testContract{recorder: b.recorder})
		b.mono = func() int64 { return time.Now().UnixNano() }
		b.runnable = func(pid int) bool { return pid == 4711 && b.starved.Load() }
		b.launch = func(_ Attempt[message], files []*os.File, deliver func(message) error) (instance, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			s := scripts[min(len(b.born), len(scripts)-1)]
			if s == nil {
				return nil, errors.Join(unix.EMFILE, files[0].Close())
			}
			p := newFakeProcess(deliver)
			close(p.started)
			b.born, b.births = append(b.born, p), append(b.births, time.Now())
			go s(p)
			return p, files[0].Close()
		}
		var ctx context.Context
		ctx, b.cancel = context.WithCancel(t.Context())
		go func() { b.over <- b.Run(ctx) }()
		test(t, b)
		b.cancel()
		synctest.Wait()
		for _, p := range b.processes() {
			p.die(0) // releases scripts
		}
	})
}

func (b *bubble) processes() []*fakeProcess {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.born
}

func (b *bubble) last() status.Status {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.statuses[len(b.statuses)-1]
}

func (b *bubble) endings() []status.End {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ends
}

func (b *bubble) lines() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logLines
}

// passTime lets time pass in the bubble.
func passTime(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (b *bubble) gaps() []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	var gaps []time.Duration
	for i := 1; i < len(b.births); i++ {
		gaps = append(gaps, b.births[i].Sub(b.births[i-1]))
	}
	return gaps
}
