package devices

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strconv"

	"rdma_events/internal/device/verbs"
)

// random returns the random generator of one object. Equal seeds give equal numbers.
func (w *World) random(device string, port, vector int, what string) *rand.Rand {
	return rand.New(rand.NewPCG(w.randomSeed(device, port, vector, what), 0))
}

func (w *World) randomSeed(device string, port, vector int, what string) uint64 {
	h := fnv.New64a()
	for _, part := range []string{
		strconv.FormatInt(w.seed, 10), device, strconv.Itoa(port), strconv.Itoa(vector), what,
	} {
		_, _ = h.Write(append([]byte(part), 0)) // a hash returns no error
	}
	return h.Sum64()
}

// logNormal draws a duration in ns around a median. Like the distribution of latencies,
// it has a long tail.
func logNormal(r *rand.Rand, median, sigma float64) int64 {
	return max(1, int64(median*math.Exp(sigma*r.NormFloat64())))
}

// stages are the drawn durations of one round, in ns.
type stages struct {
	wake, get, arm, drain, ack int64
}

// The medians are those of an idle host adapter whose interrupt is handled by a nearby
// CPU: a doorbell, the loopback without a wire, an interrupt and a wake-up.
const (
	wakeMedian  = 6000
	getMedian   = 350
	armMedian   = 120
	drainMedian = 90
	ackMedian   = 50
	// flushExtra is the firmware command that moves a queue pair to the error state.
	flushExtra = 35000
	// tailOdds is the number of wake-ups of which one meets a sleeping core and takes tailFactor times as
	// long.
	tailOdds   = 200
	tailFactor = 8
)

func drawStages(r *rand.Rand, m verbs.Method) stages {
	s := stages{
		get:   logNormal(r, getMedian, 0.2),
		arm:   logNormal(r, armMedian, 0.2),
		drain: logNormal(r, drainMedian, 0.2),
		ack:   logNormal(r, ackMedian, 0.2),
	}
	wake := drawWake(r)
	if m == verbs.MethodFlush {
		wake += logNormal(r, flushExtra, 0.2)
	}
	s.wake = wake + s.get
	return s
}

// drawWake draws the time until a thread sees a completion, in ns.
func drawWake(r *rand.Rand) int64 {
	wake := logNormal(r, wakeMedian, 0.25)
	if r.IntN(tailOdds) == 0 {
		wake *= tailFactor
	}
	return wake
}

// maxDraws bounds the draws per run. The other events of a long run are assumed to
// take the mean of the draws.
const maxDraws = 64

// drawAcks returns the sum and the maximum of count ack durations, in ns.
func drawAcks(r *rand.Rand, median float64, count uint64) (sum, greatest int64) {
	n := min(count, maxDraws)
	for range n {
		d := logNormal(r, median, 0.2)
		sum += d
		greatest = max(greatest, d)
	}
	return sum/int64(n)*int64(count-n) + sum, greatest
}
