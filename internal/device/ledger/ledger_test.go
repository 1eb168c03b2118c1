package ledger

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func newLedger(t *testing.T) *Ledger {
	t.Helper()
	l, f, err := New("test")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, f.Close())
		require.NoError(t, l.Close())
	})
	return l
}

// The C writer asserts the same numbers in internal/device/native/native.h.
func TestLayoutIsTheOneOfTheNativeBackend(t *testing.T) {
	require.EqualValues(t, Size, unsafe.Sizeof(page{}))
	require.EqualValues(t, 32, unsafe.Sizeof(eventSlot{}))
	require.EqualValues(t, 128, unsafe.Sizeof(probeSlot{}))
	require.EqualValues(t, 16, unsafe.Offsetof(page{}.reader))
	require.EqualValues(t, 48, unsafe.Offsetof(page{}.evid))
	require.EqualValues(t, 1024, unsafe.Offsetof(page{}.event))
	require.EqualValues(t, 1024+2048*32, unsafe.Offsetof(page{}.probe))
	require.EqualValues(t, 16, unsafe.Offsetof(probeSlot{}.thread))
	require.EqualValues(t, 32, unsafe.Offsetof(probeSlot{}.counts))
	require.EqualValues(t, 72, 32+unsafe.Offsetof(ProbeCounts{}.Events))
	require.EqualValues(t, 96, 32+unsafe.Offsetof(ProbeCounts{}.Late))
	require.EqualValues(t, 104, 32+unsafe.Offsetof(ProbeCounts{}.Resent))
	require.EqualValues(t, 112, 32+unsafe.Offsetof(ProbeCounts{}.Disturbed))
	require.EqualValues(t, 64, unsafe.Offsetof(page{}.fabrics))
	require.EqualValues(t, 1024+2048*32+1536*128, unsafe.Offsetof(page{}.fabric))
	require.EqualValues(t, 128+64*64, unsafe.Sizeof(fabricSlot{}))
	require.EqualValues(t, 8, unsafe.Offsetof(fabricSlot{}.thread))
	require.EqualValues(t, 24, unsafe.Offsetof(fabricSlot{}.ctl))
	require.EqualValues(t, 40, unsafe.Offsetof(fabricSlot{}.counts))
	require.EqualValues(t, 48, unsafe.Offsetof(FabricCounts{}.Dry))
	require.EqualValues(t, 128, unsafe.Offsetof(fabricSlot{}.pair))
	require.EqualValues(t, 64, unsafe.Sizeof(fabricPairSlot{}))
	require.EqualValues(t, 8, unsafe.Offsetof(fabricPairSlot{}.counts))
	require.EqualValues(t, 32, unsafe.Offsetof(FabricPairCounts{}.WriteErrors))
	require.EqualValues(t, 72, unsafe.Offsetof(page{}.alive))
	require.EqualValues(t, 296960, unsafe.Offsetof(page{}.runs))
	require.EqualValues(t, 296960+64+4096*64, unsafe.Offsetof(page{}.rounds))
	require.EqualValues(t, 64, unsafe.Sizeof(ring{}))
	require.EqualValues(t, 64, unsafe.Sizeof(Run{}))
	require.EqualValues(t, 80, unsafe.Sizeof(Round{}))
	require.EqualValues(t, 16, unsafe.Offsetof(Round{}.Start))
}

// If a count had another position in Go than in C, the host would read it as another count.
func TestCountsHaveTheOrderOfTheNativeBackend(t *testing.T) {
	header, err := os.ReadFile("../native/native.h")
	require.NoError(t, err)
	for name, counts := range map[string]reflect.Type{
		"ledger_probe":       reflect.TypeFor[ProbeCounts](),
		"ledger_fabric":      reflect.TypeFor[FabricCounts](),
		"ledger_fabric_pair": reflect.TypeFor[FabricPair](),
	} {
		body := regexp.MustCompile(`(?s)struct ` + name + ` \{(.*?)\n\};`).FindSubmatch(header)
		require.NotNil(t, body, name)
		var inC, inGo []string
		for _, fields := range regexp.MustCompile(`(?s)uint64_t ([^;]*);`).FindAllSubmatch(body[1], -1) {
			for field := range strings.SplitSeq(string(fields[1]), ",") {
				inC = append(inC, strings.ReplaceAll(strings.TrimSpace(field), "_", ""))
			}
		}
		for _, f := range reflect.VisibleFields(counts) {
			if f.Type.Kind() == reflect.Uint64 {
				inGo = append(inGo, strings.ToLower(f.Name))
			}
		}
		require.NotEmpty(t, inGo, name)
		require.Equal(t, inGo, inC, name)
	}
}

func TestCountsAreAddedAndSubtractedFieldByField(t *testing.T) {
	a := ProbeCounts{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	require.Equal(t, ProbeCounts{2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}, a.Add(a))
	require.Zero(t, a.Sub(a))
	require.Equal(t, ProbeCounts{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, a, "it is left as it was")
}

func TestRaisedCountsNeverFall(t *testing.T) {
	c := ProbeCounts{Rounds: 9, Events: 5, Acked: 4, Resent: 3}
	c.Raise(ProbeCounts{Rounds: 8, Successes: 7, Events: 6, Acked: 100, Resent: 1})
	require.Equal(t, ProbeCounts{Rounds: 9, Successes: 7, Events: 6, Acked: 6, Resent: 3}, c)
}

func TestHostReadsTheCountsOfTheWorker(t *testing.T) {
	host, f, err := New("test")
	require.NoError(t, err)
	worker, err := Open(f)
	require.NoError(t, err)
	worker.Count(10, 1, 3, 2)
	worker.Count(10, 2, 1, 1)
	worker.Count(10, 1, 1, 2)
	i, err := worker.AddProbe(1, 0, 3)
	require.NoError(t, err)
	worker.AddProbeCounts(i, ProbeCounts{Rounds: 1, Successes: 1, Events: 1, Acked: 1})
	worker.SetProbeCall(i, CallAckCQEvents, 42)
	require.NoError(t, worker.Close())
	require.NoError(t, f.Close())

	var s Contents
	host.CopyTo(&s)
	require.Equal(t, []EventCounts{{10, 1, 4, 4}, {10, 2, 1, 1}}, s.Events)
	require.Equal(t, 3, s.Probes[0].Method)
	require.Equal(t, ProbeCounts{Rounds: 1, Successes: 1, Events: 1, Acked: 1}, s.Probes[0].ProbeCounts)
	require.Equal(t, ThreadCall{Call: CallAckCQEvents, Since: 42}, s.LongestCall(nil))
	require.NoError(t, host.Close())
}

func TestLongestCallIgnoresHeldThread(t *testing.T) {
	l := newLedger(t)
	busy := func(held ...int) ThreadCall {
		var s Contents
		l.CopyTo(&s)
		return s.LongestCall(func(thread int) bool { return slices.Contains(held, thread) })
	}
	require.Equal(t, ThreadCall{}, busy())
	counter := ThreadCall{Call: CallReadSysfs, Port: 2, Thread: 21, Since: 5}
	query := ThreadCall{Call: CallQueryPort, Port: 1, Thread: 22, Since: 6}
	l.SetEvidenceCall(counter)
	l.SetControlCall(query)
	l.SetReaderCall(CallAckAsyncEvent, 7)
	require.Equal(t, counter, busy())
	require.Equal(t, query, busy(21))
	require.Equal(t, ThreadCall{Call: CallAckAsyncEvent, Since: 7}, busy(21, 22), "it has no thread that could be held")
	l.SetControlCall(ThreadCall{Call: CallCloseDevice, Since: 8})
	l.SetReaderCall(CallNone, 9)
	require.Equal(t, ThreadCall{Call: CallCloseDevice, Since: 8}, busy(21, 0))
	require.EqualValues(t, 3, counter.Lasted(8))
	require.Zero(t, ThreadCall{Since: 5}.Lasted(8))
}

func TestMoreTypesThanSlotsAreCountedTogether(t *testing.T) {
	l := newLedger(t)
	for i := range int32(EventSlots + 100) {
		l.Count(i, 0, 1, 1)
	}
	var s Contents
	l.CopyTo(&s)
	require.Len(t, s.Events, EventSlots)
	require.Equal(t, EventCounts{Overflow, 0, 101, 101}, s.Events[EventSlots-1])
	l.Count(5, 0, 1, 1)
	l.CopyTo(&s)
	require.EqualValues(t, 2, s.Events[5].Read)
}

func TestAProbeMadeAnewGoesOnInItsSlot(t *testing.T) {
	l := newLedger(t)
	a, err := l.AddProbe(1, 0, 1)
	require.NoError(t, err)
	b, err := l.AddProbe(1, 0, 3)
	require.NoError(t, err)
	again, err := l.AddProbe(1, 0, 1)
	require.NoError(t, err)
	require.NotEqual(t, a, b)
	require.Equal(t, a, again)
	for v := range ProbeSlots {
		_, err = l.AddProbe(2, v, 1)
	}
	require.ErrorIs(t, err, ErrFull)
}

func TestALedgerCannotBeShrunk(t *testing.T) {
	l, f, err := New("test")
	require.NoError(t, err)
	require.Error(t, f.Truncate(0))
	require.NoError(t, f.Close())
	require.NoError(t, l.Close())
}
