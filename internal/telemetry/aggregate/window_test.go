package aggregate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// referencePercentiles computes percentiles from all samples with the nearest-rank method.
func referencePercentiles(samples []int64) Percentiles {
	s := slices.Sorted(slices.Values(samples))
	at := func(p float64) int64 { return s[int(math.Ceil(p*float64(len(s))/100))-1] }
	return Percentiles{Count: int64(len(s)), P50: at(50), P90: at(90), P99: at(99)}
}

func TestFewSamplesAreExact(t *testing.T) {
	var tmp Scratch
	w := NewWindow(5 * time.Minute)
	require.Equal(t, Percentiles{}, w.Percentiles(0, &tmp))
	var all []int64
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range int64(300) {
		v := rng.Int64N(1e9)
		all = append(all, v)
		w.Add(i*1e9, v)
		require.Equal(t, referencePercentiles(all), w.Percentiles(i*1e9, &tmp))
	}
}

func TestManySamplesAreRightToOnePercent(t *testing.T) {
	for name, draw := range map[string]func(*rand.Rand) int64{
		"uniform":     func(r *rand.Rand) int64 { return r.Int64N(5e8) },
		"exponential": func(r *rand.Rand) int64 { return int64(r.ExpFloat64() * 45_000) },
		"log-normal":  func(r *rand.Rand) int64 { return int64(math.Exp(11 + 2*r.NormFloat64())) },
		"two peaks":   func(r *rand.Rand) int64 { return 20_000 + r.Int64N(500) + 100_000_000*r.Int64N(2) },
		"tiny":        func(r *rand.Rand) int64 { return r.Int64N(50) },
	} {
		t.Run(name, func(t *testing.T) {
			var tmp Scratch
			w := NewWindow(5 * time.Minute)
			rng := rand.New(rand.NewPCG(3, 4))
			var all []int64
			for i := range int64(100_000) {
				v := draw(rng)
				all = append(all, v)
				w.Add(i*1e6, v)
			}
			requireWithinOnePercent(t, referencePercentiles(all), w.Percentiles(100e9, &tmp))
		})
	}
}

func requireWithinOnePercent(t *testing.T, want, got Percentiles) {
	t.Helper()
	require.Equal(t, want.Count, got.Count)
	for _, p := range [][2]int64{{want.P50, got.P50}, {want.P90, got.P90}, {want.P99, got.P99}} {
		require.InDelta(t, p[0], p[1], 0.01*float64(p[0]))
	}
}

func TestAWindowForgetsWhatIsOlder(t *testing.T) {
	var tmp Scratch
	w := NewWindow(30 * time.Second)
	for i := range int64(200) {
		w.Add(0, 1000+i)
	}
	w.Add(15e9, 7)
	require.EqualValues(t, 201, w.Percentiles(29e9, &tmp).Count)
	require.Equal(t, Percentiles{Count: 1, P50: 7, P90: 7, P99: 7}, w.Percentiles(30e9, &tmp))
	require.Equal(t, Percentiles{}, w.Percentiles(60e9, &tmp))
	w.Add(61e9, 9)
	require.Equal(t, Percentiles{Count: 1, P50: 9, P90: 9, P99: 9}, w.Percentiles(61e9, &tmp))
}

func TestTheGreatestOfAWindowIsExactAndForgotten(t *testing.T) {
	w := NewWindow(30 * time.Second)
	require.Zero(t, w.Max(0))
	for i := range int64(1000) {
		w.Add(0, 1_000_001+i)
	}
	w.Add(15e9, -7)
	require.EqualValues(t, 1_001_000, w.Max(29e9))
	require.EqualValues(t, -7, w.Max(30e9))
	require.Zero(t, w.Max(60e9))
}

func TestASlidingWindowEqualsAReferenceOverItsSlices(t *testing.T) {
	var tmp Scratch
	w := NewWindow(30 * time.Second)
	rng := rand.New(rand.NewPCG(5, 6))
	type sample struct{ at, v int64 }
	var all []sample
	for now := int64(0); now < 200e9; now += rng.Int64N(20e6) + 1 {
		s := sample{now, rng.Int64N(1e7)}
		all = append(all, s)
		w.Add(s.at, s.v)
		if len(all)%500 != 0 {
			continue
		}
		var in []int64
		for _, s := range all {
			if s.at/1e9 > now/1e9-30 {
				in = append(in, s.v)
			}
		}
		requireWithinOnePercent(t, referencePercentiles(in), w.Percentiles(now, &tmp))
	}
}

func TestAnyValueFallsIntoABucketLessThanOnePercentAway(t *testing.T) {
	for shift := range 63 {
		for _, d := range []int64{-1, 0, 1, 12345} {
			v := max(0, int64(1)<<shift+d)
			got := bucketMiddle(bucketOf(uint64(v)))
			require.InDelta(t, float64(v), float64(got), 0.01*float64(v), "%d", v)
		}
	}
	require.Positive(t, bucketMiddle(bucketOf(math.MaxInt64)))
	var s sketch
	s.add(-5)
	require.Zero(t, s.valueAt(0))
}

func TestAddingDoesNotAllocateOnceAWindowHasGoneRound(t *testing.T) {
	w := NewWindow(30 * time.Second)
	rng := rand.New(rand.NewPCG(7, 8))
	now := int64(0)
	add := func() {
		now += 1e6
		w.Add(now, 20_000+rng.Int64N(60_000))
	}
	for range 31_000 {
		add()
	}
	require.Zero(t, testing.AllocsPerRun(100_000, add))

	var i Interval
	var h Histogram
	require.Zero(t, testing.AllocsPerRun(1000, func() { i.Add(5); h.Add(5) }))
}

func TestPercentilesDoNotAllocateOnceTheirScratchHasGrown(t *testing.T) {
	w := NewWindow(30 * time.Second)
	for i := range int64(10_000) {
		w.Add(i*3e6, i)
	}
	var tmp Scratch
	w.Percentiles(30e9, &tmp)
	require.Zero(t, testing.AllocsPerRun(100, func() { w.Percentiles(30e9, &tmp) }))
}

func FuzzPercentilesAreOrderedAndWithinTheSamples(f *testing.F) {
	f.Add(uint64(1), uint16(500), int64(1000))
	f.Add(uint64(9), uint16(5), int64(1))
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, limit int64) {
		if limit <= 0 || n == 0 {
			return
		}
		var tmp Scratch
		w := NewWindow(time.Minute)
		rng := rand.New(rand.NewPCG(seed, 0))
		var all []int64
		for range n {
			all = append(all, rng.Int64N(limit))
			w.Add(1e9, all[len(all)-1])
		}
		requireWithinOnePercent(t, referencePercentiles(all), w.Percentiles(1e9, &tmp))
	})
}

func BenchmarkAdd(b *testing.B) {
	w := NewWindow(5 * time.Minute)
	var now int64
	for b.Loop() {
		now += 1e6
		w.Add(now, 45_000+now%1000)
	}
}

func BenchmarkPercentiles(b *testing.B) {
	for name, n := range map[string]int64{"300": 300, "300000": 300_000} {
		b.Run(name, func(b *testing.B) {
			var tmp Scratch
			w := NewWindow(5 * time.Minute)
			for i := range n {
				w.Add(i*300e9/n, 45_000+i*7919%30_000)
			}
			for b.Loop() {
				w.Percentiles(300e9-1, &tmp)
			}
		})
	}
}
