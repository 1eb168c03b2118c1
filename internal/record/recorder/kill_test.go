package recorder

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var killRounds = flag.Int("kill.rounds", 20, "kills of a writer; make test-full does 300")

// writerKey makes the test program a writer to the directory of its value.
const writerKey = "RDMA_EVENTS_TEST_RECORDER"

// writeUntilKilled records numbers, and prints the sequence of the last record that was synced whenever it rises. It
// does not outlive the test, which has the other end of its standard input.
func writeUntilKilled(dir string) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	c := newConfig(dir)
	c.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	r, err := Open(c)
	if err != nil {
		panic(err)
	}
	go func() { panic(r.Run(context.Background())) }()
	var synced uint64
	for n := uint64(1); ; n++ {
		r.Add(Entry{Kind: "number", Data: number{int(n)}, Sync: n%200 == 0})
		for n-r.Counts().Recorded > maxQueued/2 {
			time.Sleep(100 * time.Microsecond) // the disk is slower than this loop
		}
		if now := r.Counts().Synced; now > synced {
			synced = now
			fmt.Println(synced)
		}
	}
}

// killWriter starts a writer, and kills it after a number of lines. It returns the last sequence printed.
func killWriter(t *testing.T, dir string, lines int) (synced uint64) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/proc/self/exe")
	c.Env = append(os.Environ(), writerKey+"="+dir)
	c.Stderr = os.Stderr
	lifeline, err := c.StdinPipe()
	require.NoError(t, err)
	defer func() { _ = lifeline.Close() }()
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	s := bufio.NewScanner(out)
	for n := 0; s.Scan(); n++ {
		if synced, err = strconv.ParseUint(s.Text(), 10, 64); err != nil {
			break
		}
		if n == lines {
			require.NoError(t, c.Process.Kill())
		}
	}
	require.EqualError(t, c.Wait(), "signal: killed")
	return synced
}

func TestKilledWriterLosesNothingThatWasSynced(t *testing.T) {
	var dir string
	random := rand.New(rand.NewPCG(uint64(*killRounds), 3))
	torn := 0
	for i := range *killRounds {
		if i%4 == 0 { // else most of the time goes into reading what was there before
			dir = newDir(t)
		}
		synced := killWriter(t, dir, random.IntN(12))
		records, skipped := readRecords(t, dir, Filter{})
		requireNoHoles(t, records)
		require.False(t, slices.ContainsFunc(records, func(r Record) bool { return r.Kind == KindLost }))
		last := records[len(records)-1].Sequence
		require.GreaterOrEqual(t, last, synced)
		path, _ := newestSegment(t, dir)
		if len(skipped) > 0 {
			torn++
			require.Len(t, skipped, 1)
			require.Contains(t, path, skipped[0][:len(segmentName(1))])
			require.Contains(t, skipped[0], ErrTail.Error())
		}
		require.LessOrEqual(t, sizeOf(t, dir), int64(MinSizeMiB<<20))

		r, err := Open(newConfig(dir))
		require.NoError(t, err)
		require.NoError(t, closeNow(r))
		records, skipped = readRecords(t, dir, Filter{})
		require.Empty(t, skipped)
		requireNoHoles(t, records)
		require.Equal(t, "start end", recordTexts(t, records[len(records)-2:]))
		begin := recordData[Start](t, records[len(records)-2])
		require.False(t, begin.Clean, "kill %d", i)
		require.Equal(t, last, begin.LastSequence)
	}
	t.Logf("%d kills, %d of them within a write", *killRounds, torn)
}
