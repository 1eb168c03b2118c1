package devices

import (
	"math/rand/v2"
	"slices"
	"time"

	"rdma_events/internal/device/verbs"
)

// remote is the other end of a pair: a port of another host, and the network between them. The scenario at the time when a packet is sent
// determines what happens to the packet. The lock of the pair's Fabric guards a remote.
type remote struct {
	*remotePort
	peer       verbs.FabricPeer // the peer's port as known to this side
	conditions []conditionEntry
	key        uint64  // seed of its random numbers
	wire       float64 // median transmission time in one direction, in ns

	path   [verbs.MaxFabricPaths]remotePath
	posted int64 // time at which its thread posted the last echo
	limit  echoLimit
}

// remotePath is the state of one of its UD queue pairs for this pair.
type remotePath struct {
	taken       []int64 // times at which the thread handles the waiting probes
	rx, tx, dry uint64
	dries       int64 // time after which dry is incremented; 0: it is not
	there, back int64 // times at which the last packet arrives at the peer and at this side
}

// remoteReceives is the number of receives of a peer's queue pair that are available to one pair, if 8 hosts probe the peer.
const remoteReceives = fabricReceives / 8

// draws has the random numbers of a packet and its answer. Arrays have the values for both directions, to the peer and back.
type draws struct {
	chance [2]float64 // compared with the probability of arrival
	wire   [2]int64   // transmission times
	wake   [2]int64   // times until the receiving thread sees the packet
	delay  int64      // time until the answer is posted
	busy   float64    // from 0 to 1
}

// writeDraws is set in the numbers of writes, so that they have other random numbers than probes.
const writeDraws = 1 << 63

// echoDelayMedian is the time from a poll to the post of an echo, in ns.
const echoDelayMedian = 700

// drawNumbers returns the random numbers of the nth packet. They do not depend on the time at which the packet is sent.
func (r *remote) drawNumbers(nth uint64) draws {
	random := rand.New(rand.NewPCG(r.key, nth))
	d := draws{chance: [2]float64{random.Float64(), random.Float64()}, busy: random.Float64()}
	for i := range d.wire {
		d.wire[i] = logNormal(random, r.wire, 0.1)
		d.wake[i] = drawWake(random)
	}
	d.delay = logNormal(random, echoDelayMedian, 0.3)
	return d
}

// echoProbe returns the echo of a probe that is sent now, or false if there is none.
func (r *remote) echoProbe(path int, seq uint64, now int64) (datagram, bool) {
	d, p := r.drawNumbers(seq), &r.path[path]
	came, ok := r.transmit(forward, path, now, d.chance[0], d.wire[0])
	if !ok {
		return datagram{}, false
	}
	came = max(came, p.there+1) // packets of a path keep their order
	p.there = came
	taken, ok := r.takeProbe(p, came, &d)
	if !ok {
		return datagram{}, false
	}
	r.posted = taken + d.delay
	p.rx++
	if p.dries != 0 && taken > p.dries {
		p.dry++
		p.dries = 0
	}
	if !r.limit.allows(taken) {
		return datagram{}, false
	}
	p.tx++
	back, ok := r.transmit(reverse, path, r.posted, d.chance[1], d.wire[1]+d.wake[1])
	if !ok {
		return datagram{}, false
	}
	back = max(back, p.back+1)
	p.back = back
	return datagram{
		at: back, echo: true, from: r.peer.UD[path], path: path, session: r.peer.Session, seq: seq,
		rx: p.rx, tx: p.tx, dry: p.dry, delay: d.delay,
	}, true
}

// takeProbe returns the time at which the peer's thread handles a probe that arrived, or false if it never does.
func (r *remote) takeProbe(p *remotePath, came int64, d *draws) (taken int64, ok bool) {
	if !r.hasPeerNumbers(came) {
		return 0, false
	}
	p.taken = slices.DeleteFunc(p.taken, func(at int64) bool { return at <= came })
	if len(p.taken) == remoteReceives {
		return 0, false
	}
	taken = came + d.wake[0]
	if e, _ := r.activeEntry(came, peerBusy); e != nil {
		taken += e.took/2 + int64(d.busy*float64(e.took))
	}
	if taken = r.firstWithout(taken, peerStopped, peerWorkerStopped); taken != never {
		taken = max(taken, r.posted)
	}
	if p.taken = append(p.taken, taken); len(p.taken) == remoteReceives {
		p.dries = taken
	}
	return taken, taken != never && r.hasPeerNumbers(taken)
}

// transmit returns the time at which a packet that is sent now arrives, or false if it is lost.
func (r *remote) transmit(direction string, path int, now int64, chance float64, wire int64) (at int64, ok bool) {
	arrives, delay := lossAndDelay(r.conditions, direction, path, now)
	return now + wire + delay, chance < arrives
}

// hasPeerNumbers reports whether the port's queue pairs at a time have the numbers that this side knows.
func (r *remote) hasPeerNumbers(at int64) bool {
	n := r.numbersOf(r.epochAt(at))
	return n.qkey == r.peer.QKey && slices.Equal(n.ud[:len(r.peer.UD)], r.peer.UD)
}

// ackArrival returns the time at which the acknowledgement of a write that is sent now arrives, or false if there is none.
func (r *remote) ackArrival(nth uint64, now int64) (at int64, ok bool) {
	d := r.drawNumbers(nth)
	came, there := r.transmit(forward, writePath, now, d.chance[0], d.wire[0])
	back, here := r.transmit(reverse, writePath, came, d.chance[1], d.wire[1]+d.wake[1])
	return back, there && here && r.hasPeerNumbers(came) && r.peer.RC == r.numbersOf(r.epochAt(came)).rc
}

// probeArrival returns the time at which the probe that the port sends now arrives, or false if it sends none or the probe is lost.
func (r *remote) probeArrival(path int, seq uint64, now int64) (at int64, ok bool) {
	if !r.hasPeerNumbers(now) || r.hasActive(now, peerStopped, peerWorkerStopped) {
		return 0, false
	}
	d, p := r.drawNumbers(seq), &r.path[path]
	at, ok = r.transmit(reverse, path, now, d.chance[1], d.wire[1]+d.wake[1])
	at = max(at, p.back+1)
	p.back = at
	return at, ok
}

// echoLimit limits the number of echoes to a peer per second.
type echoLimit struct {
	since int64
	sent  int
}

const echoesPerSecond = 20

// allows reports whether an echo may be sent now, and counts it.
func (l *echoLimit) allows(now int64) bool {
	if now-l.since >= int64(time.Second) {
		l.since, l.sent = now, 0
	}
	l.sent++
	return l.sent <= echoesPerSecond
}

// numbers has the numbers of a port's queue pairs.
type numbers struct {
	ud   [verbs.MaxFabricPaths]uint32
	qkey uint32
	rc   uint32 // the same for all pairs, since a remote does not distinguish sessions
}

// numbersOf returns the numbers of the port's queue pairs in an epoch. Epoch 0 has none.
func (p *remotePort) numbersOf(epoch uint64) numbers {
	if epoch == 0 {
		return numbers{}
	}
	random := rand.New(rand.NewPCG(epoch, 1))
	n := numbers{qkey: random.Uint32() >> 1} // the top bit would make it a privileged Q_Key
	first := minNumber + random.Uint32N(maxNumber-minNumber-verbs.MaxFabricPaths)
	for i := range n.ud {
		n.ud[i] = first + uint32(i)
	}
	n.rc = first + verbs.MaxFabricPaths
	return n
}
