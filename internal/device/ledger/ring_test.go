package ledger

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var killRounds = flag.Int("kill.rounds", 30, "kills of a writer; make test-full does 300")

// writerKey is the environment variable that turns this test's program into a worker that writes into the rings. Its value
// is a seed.
const writerKey = "LEDGER_TEST_WRITER"

func TestMain(m *testing.M) {
	if seed := os.Getenv(writerKey); seed != "" {
		writeForEver(seed)
	}
	os.Exit(m.Run())
}

// numberedRun returns run n of a writer. Every field is derived from n, so that a test notices a torn entry.
func numberedRun(n uint64) Run {
	i := int64(n)
	return Run{Type: 9, Port: 1, Count: n, First: i, Last: i + 1, HoldSum: i + 2, HoldMax: i + 3, AckSum: i + 4, AckMax: i + 5}
}

func numberedRound(n uint64) Round {
	i := int64(n)
	return Round{
		Outcome: int32(n % 5), Errno: int32(n % 7), Call: Call(n % 11), Completion: int32(n % 13),
		Start: i, Wake: i + 1, Get: i + 2, Arm: i + 3, Drain: i + 4, Hold: i + 5, Ack: i + 6, Total: i + 7,
	}
}

// writeForEver writes numbered runs of one event each, and numbered rounds, with pauses of random length in between.
func writeForEver(seed string) {
	must := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	n, err := strconv.ParseUint(seed, 10, 64)
	must(err)
	random := rand.New(rand.NewPCG(n, 0))
	l, err := Open(os.NewFile(3, "memory"))
	must(err)
	l.SetDoorbell(OpenDoorbell(os.NewFile(4, "doorbell")))
	slot, err := l.AddProbe(1, 0, 1)
	must(err)
	for n := uint64(0); ; n++ {
		l.Count(9, 1, 1, 1)
		run := numberedRun(n)
		run.Count = 1
		l.WriteRun(run)
		l.Ring()
		l.WriteRound(slot, numberedRound(n), false)
		if random.IntN(1000) == 0 {
			time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond)
		}
	}
}

// writer is a child process that writes into a ledger of this process.
type writer struct {
	t    *testing.T
	led  *Ledger
	bell *Doorbell
	cmd  *exec.Cmd
}

func startWriter(t *testing.T, seed int) *writer {
	t.Helper()
	led, memory, err := New("test")
	require.NoError(t, err)
	bell, err := NewDoorbell()
	require.NoError(t, err)
	theirs, err := bell.Share()
	require.NoError(t, err)
	w := &writer{t: t, led: led, bell: bell, cmd: exec.Command("/proc/self/exe")}
	w.cmd.Env = append(os.Environ(), writerKey+"="+strconv.Itoa(seed))
	w.cmd.ExtraFiles = []*os.File{memory, theirs}
	w.cmd.Stderr = os.Stderr
	require.NoError(t, w.cmd.Start())
	require.NoError(t, memory.Close())
	require.NoError(t, theirs.Close())
	return w
}

func (w *writer) kill() {
	w.t.Helper()
	require.NoError(w.t, w.cmd.Process.Kill())
	require.Error(w.t, w.cmd.Wait(), "it ends by the signal")
}

func (w *writer) close() {
	w.t.Helper()
	require.NoError(w.t, w.bell.Close())
	require.NoError(w.t, w.led.Close())
}

// received counts the entries that a reader got.
type received struct {
	t        *testing.T
	r        *Reader
	runs     uint64 // listed runs
	unlisted uint64
	next     int64 // the smallest number that the next run may have
	round    int64
	rounds   uint64
}

func (y *received) readRings() {
	y.t.Helper()
	require.NoError(y.t, y.r.Runs(^uint64(0), func(r *Run) {
		require.GreaterOrEqual(y.t, r.First, y.next, "runs come in order, and once")
		want := numberedRun(uint64(r.First))
		want.Count = 1
		require.Equal(y.t, want, *r)
		y.next = r.First + 1
		y.runs++
	}))
	y.r.Unlisted(func(typ, port int32, events uint64) {
		require.Equal(y.t, [2]int32{9, 1}, [2]int32{typ, port})
		y.unlisted += events
	})
	require.NoError(y.t, y.r.Rounds(func(port, vector, method int, r *Round) {
		require.Equal(y.t, [3]int{1, 0, 1}, [3]int{port, vector, method})
		require.GreaterOrEqual(y.t, r.Start, y.round)
		require.Equal(y.t, numberedRound(uint64(r.Start)), *r)
		y.round = r.Start + 1
		y.rounds++
	}))
}

// requireComplete compares the entries received from a writer that has ended with the writer's counts.
func (y *received) requireComplete() {
	y.t.Helper()
	y.readRings()
	var s Contents
	y.r.l.CopyTo(&s)
	if len(s.Events) == 0 {
		return // it was killed before its first event
	}
	counted := s.Events[0].Read
	require.LessOrEqual(y.t, y.runs+y.unlisted, counted)
	require.GreaterOrEqual(y.t, y.runs+y.unlisted+1, counted, "it was killed in at most one entry")
}

// The test kills the writer at random moments. Its host reads at random moments and is itself delayed.
func TestNothingIsLostOrTornWhenAWriterIsKilled(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	kills := *killRounds
	var runs, unlisted uint64
	for i := range kills {
		w := startWriter(t, i)
		y := received{t: t, r: NewReader(w.led)}
		if i%10 != 0 { // else it may be killed before its first event
			require.NoError(t, w.bell.Wait())
		}
		for range random.IntN(20) {
			switch random.IntN(3) {
			case 0:
				time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
			case 1:
				require.NoError(t, w.cmd.Process.Signal(unix.SIGSTOP))
				y.readRings()
				require.NoError(t, w.cmd.Process.Signal(unix.SIGCONT))
			}
			y.readRings()
		}
		w.kill()
		y.requireComplete()
		runs, unlisted = runs+y.runs, unlisted+y.unlisted
		w.close()
	}
	require.Greater(t, runs, uint64(kills))
	t.Logf("%d writers were killed: %d runs were read, and %d events were only counted", kills, runs, unlisted)
}

// The ring keeps the entries that fitted even if the reader is very late, and every event that did not fit is counted.
func TestAReaderThatNeverComesLosesNoCount(t *testing.T) {
	l := newLedger(t)
	const events = RunRing + 1000
	for n := range uint64(events) {
		l.Count(9, 1, 1, 1)
		r := numberedRun(n)
		r.Count = 1
		l.WriteRun(r)
	}
	y := received{t: t, r: NewReader(l)}
	y.readRings()
	require.EqualValues(t, RunRing, y.runs)
	require.EqualValues(t, RunRing, y.next, "the first entries are left as they were")
	require.EqualValues(t, events-RunRing, y.unlisted)
	l.WriteRun(Run{Type: 9, Port: 1, Count: 1, First: events, Last: events + 1, HoldSum: events + 2, HoldMax: events + 3,
		AckSum: events + 4, AckMax: events + 5})
	y.readRings()
	require.EqualValues(t, RunRing+1, y.runs, "there is space again")
	require.EqualValues(t, events-RunRing, y.unlisted)
}

// The writer dies at different steps: before it has an index, with an entry half written, with an entry complete and not
// published, and with an entry published and the doorbell not rung.
func TestAWriterThatDiesInAnEntryLeavesTheOthers(t *testing.T) {
	l := newLedger(t)
	y := received{t: t, r: NewReader(l)}
	first := numberedRun(0)
	first.Count = 1
	l.WriteRun(first)
	i, ok := l.p.runs.nextIndex(RunRing)
	require.True(t, ok)
	l.p.runs.entry[i].First = 4711 // half of it
	y.readRings()
	require.EqualValues(t, 1, y.runs)
	second := numberedRun(1)
	second.Count = 1
	l.p.runs.entry[i] = second // all of it, and not published
	y.readRings()
	require.EqualValues(t, 1, y.runs)
	l.p.runs.publish(RunRing)
	y.readRings()
	require.EqualValues(t, 2, y.runs)
}

func TestRunsAreReadUpToAnItem(t *testing.T) {
	l := newLedger(t)
	r := NewReader(l)
	var got []int64
	take := func(end uint64) []int64 {
		got = nil
		require.NoError(t, r.Runs(end, func(r *Run) { got = append(got, r.First) }))
		return got
	}
	for n := range uint64(3) {
		l.WriteRun(numberedRun(n))
	}
	require.EqualValues(t, 3, l.RunsWritten())
	require.Equal(t, []int64{0, 1}, take(2))
	require.Empty(t, take(1))
	require.Equal(t, []int64{2}, take(99))
}

func TestTheDoorbellIsRungForNewsAndAtHalfARing(t *testing.T) {
	l := newLedger(t)
	bell, err := NewDoorbell()
	require.NoError(t, err)
	defer bell.Close()
	l.SetDoorbell(bell)
	rung := func() int {
		var n [8]byte
		if _, err := unix.Read(bell.FD(), n[:]); err != nil {
			require.ErrorIs(t, err, unix.EAGAIN)
			return 0
		}
		return int(n[0])
	}
	slot, err := l.AddProbe(1, 0, 1)
	require.NoError(t, err)
	for n := range uint64(RoundRing/2 - 1) {
		l.WriteRound(slot, numberedRound(n), false)
	}
	require.Zero(t, rung())
	l.WriteRound(slot, numberedRound(0), false)
	require.Equal(t, 1, rung(), "half of the ring is in use")
	l.WriteRound(slot, numberedRound(0), false)
	require.Zero(t, rung(), "once")
	l.WriteRound(slot, numberedRound(0), true)
	require.Equal(t, 1, rung(), "an urgent round")
	l.WriteRun(numberedRun(0))
	require.Zero(t, rung(), "the reader rings after all of its runs")
}

func TestAWaitForTheDoorbellEnds(t *testing.T) {
	bell, err := NewDoorbell()
	require.NoError(t, err)
	bell.Ring()
	bell.Ring()
	require.NoError(t, bell.Wait(), "rung before")
	ended := make(chan error)
	go func() { ended <- bell.Wait() }()
	bell.Ring()
	require.NoError(t, <-ended)
	go func() { ended <- bell.Wait() }()
	bell.Wake()
	require.ErrorIs(t, <-ended, os.ErrDeadlineExceeded)
	require.NoError(t, bell.Close())
	require.ErrorIs(t, bell.Wait(), os.ErrClosed)
}

func TestImpossibleIndexesAreDamage(t *testing.T) {
	l := newLedger(t)
	r := NewReader(l)
	l.p.runs.written = RunRing + 1
	require.ErrorIs(t, r.Runs(^uint64(0), func(*Run) { t.Error("no run is read") }), ErrDamaged)
	l.p.runs.written = 2
	require.NoError(t, r.Runs(^uint64(0), func(*Run) {}))
	l.p.runs.written = 1 // it has gone back
	require.ErrorIs(t, r.Runs(^uint64(0), func(*Run) { t.Error("no run is read") }), ErrDamaged)
	_, err := l.AddProbe(1, 0, 1)
	require.NoError(t, err)
	l.p.rounds[0].written = RoundRing + 1
	require.ErrorIs(t, r.Rounds(func(int, int, int, *Round) { t.Error("no round is read") }), ErrDamaged)
}
