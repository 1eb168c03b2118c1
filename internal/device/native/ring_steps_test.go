//go:build linux && cgo

package native_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/prerequisite"
)

// steppedWriter is the program testdata/stepped_writer.c: a worker that writes into the rings of led, and that can be stopped or
// killed at any instruction. All stores of a stopped process are visible. These tests therefore check the order of the instructions,
// and not the order in which another processor may see the stores of a running process.
type steppedWriter struct {
	t      *testing.T
	led    *ledger.Ledger
	memory *os.File
	bell   *ledger.Doorbell
	in     io.WriteCloser
	out    *bufio.Reader
}

var compileSteppedWriter = sync.OnceValues(func() (string, error) {
	program := filepath.Join(libraryDir, "stepped_writer")
	args := []string{"-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wl,-z,now", "-o", program}
	files := []string{
		"testdata/stepped_writer.c", "native.c", "native_ring.c", "native_completions.c", "native_probe.c", "native_qp.c", "native_ud.c",
	}
	for _, file := range append(files, "native.h", "native_lib.h") {
		// The test cache tracks the files that this process accesses, not those of the compiler.
		if _, err := os.Stat(file); err != nil {
			return "", err
		}
	}
	args = append(append(args, files...), "-ldl", "-lpthread")
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the stepped writer: %w\n%s", err, out)
	}
	return program, nil
})

func startSteppedWriter(t *testing.T) *steppedWriter {
	t.Helper()
	program, err := compileSteppedWriter()
	require.NoError(t, err)
	w := &steppedWriter{t: t}
	w.led, w.memory, err = ledger.New("steps")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.led.Close())
		require.NoError(t, w.memory.Close())
	})
	w.bell, err = ledger.NewDoorbell()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.bell.Close()) })
	theirs, err := w.bell.Share()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 90*time.Second)
	cmd := exec.CommandContext(ctx, program)
	cmd.ExtraFiles = []*os.File{w.memory, theirs}
	cmd.Stderr = os.Stderr
	w.in, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	w.out = bufio.NewReader(out)
	require.NoError(t, cmd.Start())
	require.NoError(t, theirs.Close())
	t.Cleanup(func() {
		defer cancel()
		require.NoError(t, w.in.Close())
		require.NoError(t, cmd.Wait())
	})
	return w
}

// tell sends the program a command and returns its answer.
func (w *steppedWriter) tell(format string, args ...any) string {
	w.t.Helper()
	command := fmt.Sprintf(format, args...)
	_, err := fmt.Fprintln(w.in, command)
	require.NoError(w.t, err, command)
	answer, err := w.out.ReadString('\n')
	require.NoError(w.t, err, command)
	answer = strings.TrimSpace(answer)
	if reason, refused := strings.CutPrefix(answer, "refused "); refused {
		prerequisite.Missing(w.t, prerequisite.Trace, "no process can be single-stepped: "+reason)
	}
	return answer
}

// begin starts a writer, which stops before its first instruction.
func (w *steppedWriter) begin(format string, args ...any) {
	w.t.Helper()
	require.Equal(w.t, "stopped", w.tell(format, args...))
}

// step makes the writer execute instructions, and reports whether it has ended.
func (w *steppedWriter) step(instructions int) (ended bool) {
	w.t.Helper()
	answer := w.tell("step %d", instructions)
	require.Contains(w.t, []string{"stopped", "ended"}, answer)
	return answer == "ended"
}

func (w *steppedWriter) kill() {
	w.t.Helper()
	require.Equal(w.t, "killed", w.tell("kill"))
}

func (w *steppedWriter) finish() {
	w.t.Helper()
	require.Equal(w.t, "ended", w.tell("finish"))
}

// clear resets the ledger, except its magic number, and the doorbell.
func (w *steppedWriter) clear() {
	w.t.Helper()
	const hole = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	require.NoError(w.t, unix.Fallocate(int(w.memory.Fd()), hole, 0, ledger.Size))
	w.rung()
}

// rung returns how often the doorbell has been rung since the last call.
func (w *steppedWriter) rung() uint64 {
	w.t.Helper()
	var count [8]byte
	if _, err := unix.Read(w.bell.FD(), count[:]); err != nil {
		require.ErrorIs(w.t, err, unix.EAGAIN)
		return 0
	}
	return binary.NativeEndian.Uint64(count[:])
}

// The entry with each number, as the writer writes it. Every field is derived from the number, so that a torn entry is noticed.
func numberedRun(n uint64) ledger.Run {
	i := int64(n) * 8
	return ledger.Run{
		Type: int32(verbs.EventPortActive), Port: 1, Count: n%5 + 1,
		First: i, Last: i + 1, HoldSum: i + 2, HoldMax: i + 3, AckSum: i + 4, AckMax: i + 5,
	}
}

func numberedRound(n uint64, outcome verbs.Outcome) ledger.Round {
	i := int64(n) * 8
	return ledger.Round{
		Outcome: int32(outcome), Errno: int32(n % 7), Call: ledger.Call(n % 11), Completion: int32(n % 13),
		Start: i, Wake: i + 1, Get: i + 2, Arm: i + 3, Drain: i + 4, Hold: i + 5, Ack: i + 6, Total: i + 7,
	}
}

// eventsOfRuns returns the number of events of the runs from number first to before end.
func eventsOfRuns(first, end int) uint64 {
	var events uint64
	for n := first; n < end; n++ {
		events += numberedRun(uint64(n)).Count
	}
	return events
}

// numbersFrom returns the numbers from first to before end.
func numbersFrom(first, end int) []int {
	numbers := []int{}
	for n := first; n < end; n++ {
		numbers = append(numbers, n)
	}
	return numbers
}

// writing describes the entries that a writer is about to write, and the state of their ring.
type writing struct {
	name    string
	rounds  bool // into the ring of a probe; false: runs, into the ring of runs
	taken   int  // entries that the worker has written and the host has taken
	listed  int  // all entries that the worker has written
	writes  int  // entries that the writer is about to write
	fits    int  // of these that have a place
	outcome verbs.Outcome
	rings   uint64 // how often the writer rings the doorbell
}

// ringWritings returns cases of writing runs and rounds into rings, from empty to full.
func ringWritings() []writing {
	const runs, rounds, good, lost = ledger.RunRing, ledger.RoundRing, verbs.OutcomeSuccess, verbs.OutcomeLostEvent
	return []writing{
		// The writer of runs rings after the last of them, also if they have no place: the host reports them by their number.
		{"a run, ring empty", false, 0, 0, 1, 1, good, 1},
		{"a run, ring with entries", false, 1, 3, 1, 1, good, 1},
		{"a run that fills half of the ring", false, 0, runs/2 - 1, 1, 1, good, 1},
		{"a run, ring full", false, 0, runs, 1, 0, good, 1},
		{"two runs around the end of the ring", false, runs - 3, runs - 1, 2, 2, good, 1},
		{"two runs, of which one has a place", false, runs / 2, runs + runs/2 - 1, 2, 1, good, 1},
		// A good round is no news, and rings only if half of the ring is in use with it.
		{"a good round, ring with entries", true, 1, 3, 1, 1, good, 0},
		{"a good round in the last place", true, rounds - 3, rounds - 1, 1, 1, good, 0},
		{"a good round that fills half of the ring", true, 0, rounds/2 - 1, 1, 1, good, 1},
		{"a good round, ring full", true, 0, rounds, 1, 0, good, 0},
		{"a bad round, ring empty", true, 0, 0, 1, 1, lost, 1},
		{"a bad round in the first place again", true, rounds - 2, rounds, 1, 1, lost, 1},
		{"a bad round that fills half of the ring", true, 0, rounds/2 - 1, 1, 1, lost, 1},
		{"a bad round, ring full", true, 0, rounds, 1, 0, lost, 0},
	}
}

// unlisted returns the number of events of the runs that have no place.
func (s *writing) unlisted() uint64 {
	if s.rounds {
		return 0
	}
	return eventsOfRuns(s.listed+s.fits, s.listed+s.writes)
}

// ringHost is the host of a steppedWriter.
type ringHost struct {
	*writing
	w       *steppedWriter
	reader  *ledger.Reader
	numbers []int  // of the entries that were taken, each of which is whole
	missing uint64 // events that were reported by their number alone
	rung    uint64
}

// prepare starts the writer for s, and returns the host of its ledger. The counts of the ledger already include the entries that
// the writer is about to write, since a worker counts first.
func (w *steppedWriter) prepare(s *writing) *ringHost {
	w.t.Helper()
	w.clear()
	h := &ringHost{writing: s, w: w, reader: ledger.NewReader(w.led), numbers: []int{}}
	write := func(n int) { w.led.WriteRun(numberedRun(uint64(n))) }
	command := fmt.Sprintf("runs %d %d", s.listed, s.writes)
	if s.rounds {
		slot, err := w.led.AddProbe(1, 0, int(verbs.MethodUDSend))
		require.NoError(w.t, err)
		require.Zero(w.t, slot, "it is that of the writer")
		w.led.AddProbeCounts(slot, ledger.ProbeCounts{Rounds: uint64(s.listed + s.writes)})
		write = func(n int) { w.led.WriteRound(slot, numberedRound(uint64(n), verbs.OutcomeSuccess), false) }
		command = fmt.Sprintf("round %d %d", s.listed, s.outcome)
	} else {
		events := eventsOfRuns(0, s.listed+s.writes)
		w.led.Count(int32(verbs.EventPortActive), 1, events, events)
	}
	for n := range s.taken {
		write(n)
		if n == ledger.RoundRing/2 {
			h.collect()
		}
	}
	h.collect()
	for n := s.taken; n < s.listed; n++ {
		write(n)
	}
	require.Equal(w.t, numbersFrom(0, s.taken), h.numbers)
	h.numbers = []int{}
	w.begin("%s", command)
	return h
}

// collect reads the rings, and requires each entry to be complete.
func (h *ringHost) collect() {
	h.w.t.Helper()
	h.rung += h.w.rung()
	require.NoError(h.w.t, h.reader.Runs(^uint64(0), func(r *ledger.Run) {
		n := r.First / 8
		if want := numberedRun(uint64(n)); *r != want { // require.Equal takes too long for so many
			require.Equal(h.w.t, want, *r)
		}
		h.numbers = append(h.numbers, int(n))
	}))
	h.reader.Unlisted(func(typ, port int32, events uint64) {
		require.Equal(h.w.t, [2]int32{int32(verbs.EventPortActive), 1}, [2]int32{typ, port})
		h.missing += events
	})
	require.NoError(h.w.t, h.reader.Rounds(func(port, vector, method int, r *ledger.Round) {
		require.Equal(h.w.t, [3]int{1, 0, int(verbs.MethodUDSend)}, [3]int{port, vector, method})
		n, outcome := int(r.Start/8), verbs.OutcomeSuccess
		if n == h.listed {
			outcome = h.outcome
		}
		if want := numberedRound(uint64(n), outcome); *r != want {
			require.Equal(h.w.t, want, *r)
		}
		h.numbers = append(h.numbers, n)
	}))
}

// requireCounts requires that the counts of the ledger are unchanged, and that there are no more entries than counts.
func (h *ringHost) requireCounts() {
	h.w.t.Helper()
	var s ledger.Contents
	h.w.led.CopyTo(&s)
	all := h.listed + h.writes
	if h.rounds {
		require.Empty(h.w.t, s.Events)
		require.Len(h.w.t, s.Probes, 1)
		require.EqualValues(h.w.t, all, s.Probes[0].Rounds)
		require.LessOrEqual(h.w.t, h.taken+len(h.numbers), all)
		return
	}
	require.Empty(h.w.t, s.Probes)
	events := eventsOfRuns(0, all)
	require.Equal(h.w.t, []ledger.EventCounts{{Type: int32(verbs.EventPortActive), Port: 1, Read: events, Acked: events}}, s.Events)
	require.EqualValues(h.w.t, h.listed+len(h.written()), h.w.led.RunsWritten())
}

// written returns the numbers of the entries that the stepped writer has written.
func (h *ringHost) written() []int {
	return h.numbers[min(len(h.numbers), h.listed-h.taken):]
}

// requireComplete requires that after a writing, during which the host has read entries, the host knows of each run exactly once, and
// of each round that fitted into its ring.
func (h *ringHost) requireComplete() {
	h.w.t.Helper()
	written := h.written()
	require.Equal(h.w.t, numbersFrom(h.taken, h.listed), h.numbers[:len(h.numbers)-len(written)])
	require.True(h.w.t, slices.IsSorted(written), "%v", written)
	require.Equal(h.w.t, slices.Compact(slices.Clone(written)), written, "none comes twice")
	require.GreaterOrEqual(h.w.t, len(written), h.fits)
	require.LessOrEqual(h.w.t, len(written), h.writes)
	h.requireCounts()
	switch {
	case !h.rounds:
		known := h.missing
		for _, n := range written {
			known += eventsOfRuns(n, n+1)
		}
		require.Equal(h.w.t, eventsOfRuns(h.listed, h.listed+h.writes), known)
		require.EqualValues(h.w.t, 1, h.rung)
	case h.outcome != verbs.OutcomeSuccess:
		require.Len(h.w.t, written, int(h.rung))
	default:
		require.LessOrEqual(h.w.t, h.rung, h.rings)
	}
}

// A worker is killed after each number of instructions of the writing. The host finds the earlier entries and the first entries of
// the writing, each complete.
func TestWriterKilledAtAnyInstructionLeavesWholeEntries(t *testing.T) {
	for _, s := range ringWritings() {
		t.Run(s.name, func(t *testing.T) {
			w := startSteppedWriter(t)
			kept, ended := 0, false
			seen := []int{}
			for n := 0; !ended; n++ {
				h := w.prepare(&s)
				if ended = w.step(n); !ended {
					w.kill()
				}
				h.collect()
				require.Equal(t, numbersFrom(s.taken, s.listed+len(h.written())), h.numbers)
				h.requireCounts()
				require.GreaterOrEqual(t, len(h.written()), kept, "another instruction takes nothing away")
				if kept = len(h.written()); !slices.Contains(seen, kept) {
					seen = append(seen, kept)
				}
				require.LessOrEqual(t, h.missing, s.unlisted())
				require.LessOrEqual(t, h.rung, s.rings)
				if ended || h.rung > 0 {
					require.Equal(t, s.fits, kept, "the doorbell is rung once everything can be read")
					require.Equal(t, s.unlisted(), h.missing)
				}
				if ended {
					require.Equal(t, s.rings, h.rung)
					require.Greater(t, n, 10, "a writing has more instructions")
				}
			}
			require.Equal(t, numbersFrom(0, s.fits+1), seen, "the writer was killed before and after each of its entries")
		})
	}
}

// The host reads the rings after the writer has executed n instructions, as it may while the writer's thread is preempted, and again
// after the writer has ended. Between them, the two readings return each run once, and each round for which the ring had space.
func TestHostThatReadsAtAnyInstructionMissesNothing(t *testing.T) {
	for _, s := range ringWritings() {
		t.Run(s.name, func(t *testing.T) {
			w := startSteppedWriter(t)
			ended := false
			for n := 0; !ended; n++ {
				h := w.prepare(&s)
				ended = w.step(n)
				h.collect()
				if !ended {
					w.finish()
				}
				h.collect()
				h.requireComplete()
			}
		})
	}
}

// eventsKnown collects the host's knowledge of the events that the writer's command "read" finds.
type eventsKnown struct {
	w      *steppedWriter
	reader *ledger.Reader
	before uint64           // events of the type that the ring was filled with
	runs   []string         // in order
	events map[int32]uint64 // by type, also those that are known by their number alone
}

func (k *eventsKnown) addRuns() {
	k.w.t.Helper()
	require.NoError(k.w.t, k.reader.Runs(^uint64(0), func(r *ledger.Run) {
		require.Positive(k.w.t, r.First)
		require.LessOrEqual(k.w.t, r.First, r.Last)
		k.runs = append(k.runs, fmt.Sprintf("%d %v of port %d", r.Count, verbs.EventType(r.Type), r.Port))
		k.events[r.Type] += r.Count
	}))
}

func (k *eventsKnown) addUnlisted() {
	k.reader.Unlisted(func(typ, _ int32, events uint64) { k.events[typ] += events })
}

// requireCounted requires that the ledger has counted each event that the host knows.
func (k *eventsKnown) requireCounted() {
	k.w.t.Helper()
	var s ledger.Contents
	k.w.led.CopyTo(&s)
	counted := map[int32]uint64{int32(verbs.EventPortActive): -k.before}
	for _, e := range s.Events {
		require.LessOrEqual(k.w.t, e.Acked, e.Read)
		counted[e.Type] += e.Read
	}
	for typ, events := range k.events {
		require.LessOrEqual(k.w.t, events, counted[typ])
	}
}

var eventsRead = map[int32]uint64{int32(verbs.EventPortErr): 3, int32(verbs.EventPortActive): 2}

// The test steps through the whole call that reads events. The ledger has counted an event before the host can know of it, so that
// no count is too low, whenever the worker is killed.
func TestEventsAreCountedBeforeTheyCanBeRead(t *testing.T) {
	w := startSteppedWriter(t)
	known := eventsKnown{w: w, reader: ledger.NewReader(w.led), events: map[int32]uint64{}}
	w.begin("read")
	for ended := false; !ended; known.requireCounted() {
		ended = w.step(1)
		known.addRuns()
		known.addUnlisted()
	}
	require.Equal(t, []string{"3 port_err of port 1", "2 port_active of port 1"}, known.runs)
	require.Equal(t, eventsRead, known.events)
	require.EqualValues(t, 1, w.rung())
}

// The same with a full ring: the host then gets only the counts of the events.
func TestUnlistedEventsAreCountedBeforeTheyCanBeRead(t *testing.T) {
	w := startSteppedWriter(t)
	known := eventsKnown{w: w, reader: ledger.NewReader(w.led), before: ledger.RunRing, events: map[int32]uint64{}}
	w.led.Count(int32(verbs.EventPortActive), 1, ledger.RunRing, ledger.RunRing)
	for range ledger.RunRing {
		w.led.WriteRun(ledger.Run{Type: int32(verbs.EventPortActive), Port: 1, Count: 1, First: 1, Last: 1})
	}
	w.begin("read")
	for ended := false; !ended; known.requireCounted() {
		ended = w.step(1)
		known.addUnlisted()
	}
	require.Equal(t, eventsRead, known.events)
	known.addRuns()
	require.Len(t, known.runs, ledger.RunRing)
}

// One call counts the round of a kept trial and writes it into the ring. The test steps through that call.
func TestRoundIsCountedBeforeItCanBeRead(t *testing.T) {
	for _, outcome := range []verbs.Outcome{verbs.OutcomeSuccess, verbs.OutcomeLostEvent} {
		t.Run(outcome.String(), func(t *testing.T) {
			w := startSteppedWriter(t)
			_, err := w.led.AddProbe(1, 0, int(verbs.MethodUDSend))
			require.NoError(t, err)
			reader := ledger.NewReader(w.led)
			var s ledger.Contents
			rounds := 0
			w.begin("keep 4711 %d", outcome)
			for ended := false; !ended; {
				ended = w.step(1)
				require.NoError(t, reader.Rounds(func(_, _, _ int, r *ledger.Round) {
					require.Equal(t, numberedRound(4711, outcome), *r)
					rounds++
				}))
				w.led.CopyTo(&s)
				require.LessOrEqual(t, uint64(rounds), s.Probes[0].Rounds)
				require.LessOrEqual(t, s.Probes[0].Rounds, s.Probes[0].Successes+s.Probes[0].LostEvents)
			}
			require.Equal(t, 1, rounds)
			require.EqualValues(t, 1, s.Probes[0].Rounds)
		})
	}
}
