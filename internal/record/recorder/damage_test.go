package recorder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// noSync makes recording fast in tests in which durability does not matter.
type noSync struct{ file }

func (noSync) Sync() error { return nil }

// recordNumber starts a Recorder, records one number and closes it.
func recordNumber(t *testing.T, dir string, n int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, err := open(newConfig(dir), func(f file) file { return noSync{f} })
		require.NoError(t, err)
		r.Add(Entry{Kind: "number", Data: number{n}})
		require.NoError(t, closeNow(r))
	})
}

// frameEnds returns where the frames of a sound segment end, by their lengths alone.
func frameEnds(t *testing.T, b []byte) (ends []int) {
	t.Helper()
	for at := headerSize; at < len(b); {
		at += prefixSize + int(b[at]) + int(b[at+1])<<8 + int(b[at+2])<<16
		ends = append(ends, at)
	}
	require.Equal(t, len(b), ends[len(ends)-1])
	return ends
}

// wholeBefore returns how many frames end at a place or before it.
func wholeBefore(ends []int, at int) int {
	n := 0
	for n < len(ends) && ends[n] <= at {
		n++
	}
	return n
}

func TestSegmentThatEndsAnywhereIsCutAndAppendedTo(t *testing.T) {
	dir := newDir(t)
	recordNumbers(t, newConfig(dir), 0, 4)
	path, b := newestSegment(t, dir)
	ends := frameEnds(t, b)
	all, _ := readRecords(t, dir, Filter{})
	for size := range b {
		require.NoError(t, os.WriteFile(path, b[:size], 0o600))
		whole := wholeBefore(ends, size)
		records, skipped := readRecords(t, dir, Filter{})
		require.Equal(t, all[:whole], append([]Record{}, records...), size)
		good := headerSize
		if whole > 0 {
			good = ends[whole-1]
		}
		if size == good || size == 0 {
			require.Empty(t, skipped)
		} else {
			torn := size - good
			if size < headerSize {
				torn = size
			}
			require.Equal(t, []string{fmt.Sprintf("%s: %d bytes skipped in 1 places: no whole record", filepath.Base(path), torn)}, skipped)
		}

		recordNumber(t, dir, 100)
		records, skipped = readRecords(t, dir, Filter{})
		require.Empty(t, skipped, size)
		require.Equal(t, strings.TrimSpace(recordTexts(t, all[:whole])+" start 100 end"), recordTexts(t, records))
		requireNoHoles(t, records)
		require.Equal(t, uint64(1), records[0].Sequence)
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
}

// damageBytes changes bytes of a segment, and returns the offsets of the first and the last one.
func damageBytes(random *rand.Rand, b []byte) (first, last int) {
	first = len(b)
	for range 1 + random.IntN(3) {
		at := random.IntN(len(b))
		b[at] ^= byte(1 + random.IntN(255))
		first, last = min(first, at), max(last, at)
	}
	return first, last
}

func TestHundredDamagedSegmentsAreReadAndAppendedTo(t *testing.T) {
	dir := newDir(t)
	recordNumbers(t, newConfig(dir), 0, 40)
	path, b := newestSegment(t, dir)
	ends := frameEnds(t, b)
	all, _ := readRecords(t, dir, Filter{})
	random := rand.New(rand.NewPCG(16, 1))
	for range 100 {
		damaged := bytes.Clone(b)
		first, last := damageBytes(random, damaged)
		copied := newDir(t)
		copyDir(t, dir, copied)
		require.NoError(t, os.WriteFile(filepath.Join(copied, filepath.Base(path)), damaged, 0o600))

		// A reader finds what precedes the damage and what follows it.
		records, skipped := readRecords(t, copied, Filter{})
		require.Len(t, skipped, 1)
		before, after := wholeBefore(ends, first), wholeBefore(ends, last)+1
		require.Equal(t, all[:before], records[:before])
		if after < len(all) {
			require.Equal(t, all[after:], records[len(records)-len(all)+after:])
		}

		recordNumber(t, copied, 100)
		records, _ = readRecords(t, copied, Filter{})
		require.Equal(t, "start 100 end", recordTexts(t, records[len(records)-3:]))
		require.Greater(t, records[len(records)-3].Sequence, uint64(before))
		if first >= headerSize { // it was cut where the damage begins
			require.Equal(t, all[:before], records[:before])
			require.Len(t, records, before+3)
			requireNoHoles(t, records)
		}
	}
}

// TestLogDoesWhatItsModelDoes runs recorders one after another. Some are killed in the middle of a write, and some bytes change.
// The model is the list of the records that have to be found.
func TestLogDoesWhatItsModelDoes(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			dir := newDir(t)
			var model []string
			next := 0
			for range 20 {
				model = append(model, "start")
				n := random.IntN(40)
				synctest.Test(t, func(t *testing.T) {
					r, err := open(newConfig(dir), func(f file) file { return noSync{f} })
					require.NoError(t, err)
					addNumbers(r, next, n)
					require.NoError(t, closeNow(r))
				})
				for range n {
					model = append(model, fmt.Sprint(next))
					next++
				}
				model = append(model, "end")
				path, b := newestSegment(t, dir)
				ends := frameEnds(t, b)
				at := len(b)
				switch random.IntN(3) {
				case 0: // killed in a write
					at = ends[max(0, len(ends)-1-random.IntN(n+2))] + random.IntN(20)
					at = min(at, len(b))
					require.NoError(t, os.WriteFile(path, b[:at], 0o600))
				case 1:
					at = headerSize + random.IntN(len(b)-headerSize)
					b[at] ^= byte(1 + random.IntN(255))
					require.NoError(t, os.WriteFile(path, b, 0o600))
				}
				whole := wholeBefore(ends, at)
				model = model[:len(model)-len(ends)+whole]
				model = append(model, "start", "-1", "end")
				recordNumber(t, dir, -1)
				records, skipped := readRecords(t, dir, Filter{})
				require.Empty(t, skipped)
				require.Equal(t, strings.Join(model, " "), recordTexts(t, records))
				requireNoHoles(t, records)
			}
		})
	}
}

func TestSegmentOfANewerVersionIsLeftAlone(t *testing.T) {
	dir := newDir(t)
	recordNumbers(t, newConfig(dir), 0, 2)
	newer := filepath.Join(dir, segmentName(2))
	content := append(newHeader(version+1, 5), "what this version does not know"...)
	require.NoError(t, os.WriteFile(newer, content, 0o600))
	var log bytes.Buffer
	c := newConfig(dir)
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	recordNumbers(t, c, 2, 1)
	recordNumbers(t, c, 3, 1)
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "segment=0000000002.seg")
	require.Contains(t, log.String(), "it has version 2, and this program knows 1")

	b, err := os.ReadFile(newer)
	require.NoError(t, err)
	require.Equal(t, content, b)
	records, skipped := readRecords(t, dir, Filter{})
	require.Equal(t, []string{"0000000002.seg: it has version 2, and this program knows 1"}, skipped)
	require.Equal(t, "start 0 1 end start 2 end start 3 end", recordTexts(t, records))
	require.Greater(t, records[4].Sequence, uint64(5), "the newer segment has those from 5 on")
	require.Equal(t, uint64(4), recordData[Start](t, records[4]).LastSequence)
}

func TestSegmentWithADamagedHeaderIsLeftAlone(t *testing.T) {
	dir := newDir(t)
	recordNumbers(t, newConfig(dir), 0, 2)
	path, b := newestSegment(t, dir)
	b[3] ^= 1
	require.NoError(t, os.WriteFile(path, b, 0o600))
	recordNumbers(t, newConfig(dir), 2, 1)
	records, skipped := readRecords(t, dir, Filter{})
	require.Equal(t, []string{"0000000001.seg: 24 bytes skipped in 1 places: they are damaged"}, skipped)
	require.Equal(t, "start 0 1 end start 2 end", recordTexts(t, records))
	requireNoHoles(t, records)
}

func TestLastRecordIsTheLastThatCanBeDecoded(t *testing.T) {
	e := newEncoder("boot", "node7")
	for i := range uint64(3) {
		require.NoError(t, e.encode(i+1, &stamped{Entry: Entry{Kind: "number", Data: number{int(i)}}}))
	}
	b := bytes.Clone(e.buf.Bytes())
	require.Equal(t, uint64(3), lastRecord(b).Sequence)
	require.Equal(t, uint64(3), lastRecord(append(newHeader(version, 1), b...)).Sequence)
	begin := bytes.LastIndex(b, []byte(contentPrefix)) - prefixSize
	b[begin+prefixSize+len(contentPrefix)] = '}'
	binary.LittleEndian.PutUint32(b[begin+4:], frameChecksum(b[begin:]))
	require.NotNil(t, frameAt(b[begin:]))
	require.Equal(t, uint64(2), lastRecord(b).Sequence)
	require.Zero(t, lastRecord(b[begin:]).Sequence)

	one := testing.AllocsPerRun(1, func() { lastRecord(b[:begin]) })
	many := bytes.Repeat(b[:begin], 1000)
	require.Less(t, testing.AllocsPerRun(1, func() { lastRecord(many) }), one+100, "it decodes more than one record")
}

func TestSegmentThatIsTooLongIsReadToTheLimit(t *testing.T) {
	const size = 20 << 30 // sparse
	for _, older := range []bool{false, true} {
		t.Run(fmt.Sprintf("older=%v", older), func(t *testing.T) {
			dir := newDir(t)
			recordNumbers(t, newConfig(dir), 0, 3)
			path, b := newestSegment(t, dir)
			require.NoError(t, os.Truncate(path, size))
			want := ErrTooLong.Error()
			if older {
				require.NoError(t, os.WriteFile(filepath.Join(dir, segmentName(2)), newHeader(version, 6), 0o600))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			records, skipped := readRecords(t, dir, Filter{})
			require.Equal(t, "start 0 1 2 end", recordTexts(t, records))
			require.Equal(t, []string{fmt.Sprintf("0000000001.seg: %d bytes skipped in 2 places: %s", size-len(b), want)}, skipped)

			synctest.Test(t, func(t *testing.T) {
				r := startRecorder(t, newConfig(dir), nil)
				require.NoError(t, r.stop())
			})
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(5*maxSegment))
			records, skipped = readRecords(t, dir, Filter{})
			require.Empty(t, skipped)
			begin := recordData[Start](t, records[len(records)-2])
			require.Equal(t, uint64(5), begin.LastSequence)
			if older {
				require.Zero(t, begin.CutBytes)
				require.NoFileExists(t, path, "it did not fit into the size")
			} else {
				require.Equal(t, int64(size-len(b)), begin.CutBytes)
			}
		})
	}
}

func TestSearchForFramesSumsNoMoreThanTwiceWhatItPasses(t *testing.T) {
	e := newEncoder("boot", "node7")
	require.NoError(t, e.encode(1, &stamped{Entry: Entry{Kind: "event"}}))
	frame := e.buf.Bytes()
	// Each place claims the greatest frame, which ends where a record may end.
	line := []byte(strings.Repeat(`....____`+contentPrefix, 99) + contentSuffix)
	crafted := bytes.Repeat(line, 1000)
	for at := 0; at < len(crafted); {
		i := bytes.Index(crafted[at+prefixSize:], []byte(contentPrefix))
		if i < 0 {
			break
		}
		at += i
		if end := bytes.LastIndex(crafted[:min(len(crafted), at+prefixSize+maxContent)], []byte(contentSuffix)); end > at+prefixSize {
			binary.LittleEndian.PutUint32(crafted[at:], uint32(end+len(contentSuffix)-at-prefixSize))
			require.NotNil(t, contentAt(crafted[at:]))
		}
		at += prefixSize
	}
	b := slices.Concat(frame, crafted, frame, bytes.Repeat([]byte{0}, 2*maxContent), frame)
	var f finder
	found := 0
	for rest := b; len(rest) > 0; {
		content, at := f.find(rest)
		if content == nil {
			break
		}
		require.Equal(t, frame[prefixSize:], content)
		found++
		rest = rest[at+prefixSize+len(content):]
	}
	require.GreaterOrEqual(t, found, 2, "the first one, and the one that follows zeros")
	require.Equal(t, len(b), f.passed)
	require.Greater(t, f.wasted, maxWasted)
	require.LessOrEqual(t, f.wasted, maxWasted+2*len(b))
}

func FuzzFrame(f *testing.F) {
	e := newEncoder("boot", "node7")
	require.NoError(f, e.encode(1, &stamped{Entry: Entry{Kind: "event", Device: "mlx5_0", Data: number{7}}}))
	f.Add(e.buf.Bytes())
	f.Add([]byte("\x0c\x00\x00\x00\x00\x00\x00\x00" + contentPrefix + "1}\n"))
	f.Add(bytes.Repeat([]byte(contentPrefix), 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		content, at := new(finder).find(b)
		if content == nil {
			require.Equal(t, len(b), at)
			return
		}
		require.Equal(t, content, frameAt(b[at:]))
		require.True(t, bytes.HasPrefix(content, []byte(contentPrefix)))
		require.LessOrEqual(t, at+prefixSize+len(content), len(b))
		for i := range at {
			require.Nil(t, frameAt(b[i:]), "a frame before the one that was found")
		}
	})
}

func FuzzSegment(f *testing.F) {
	e := newEncoder("boot", "node7")
	e.buf.Write(newHeader(version, 1))
	for i := range uint64(3) {
		require.NoError(f, e.encode(i+1, &stamped{Entry: Entry{Kind: "number", Data: number{int(i)}}}))
	}
	f.Add(e.buf.Bytes())
	f.Add(e.buf.Bytes()[:e.buf.Len()-1])
	f.Add(e.buf.Bytes()[1:])
	f.Add(newHeader(version+1, 9))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := newDir(t)
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, segmentName(1)), b, 0o600))
		before, _ := readRecords(t, dir, Filter{})
		r, err := open(newConfig(dir), func(f file) file { return noSync{f} })
		require.NoError(t, err)
		r.Add(Entry{Kind: "added"})
		require.NoError(t, closeNow(r))
		after, _ := readRecords(t, dir, Filter{})
		require.LessOrEqual(t, len(after), len(before)+3)
		require.GreaterOrEqual(t, len(after), 3)
		var kinds []string
		for _, one := range after[len(after)-3:] {
			kinds = append(kinds, one.Kind)
		}
		require.Equal(t, []string{KindStart, "added", KindEnd}, kinds)
	})
}
