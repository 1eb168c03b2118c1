package devices

import (
	"math/rand/v2"
	"slices"
	"time"

	"rdma_events/internal/device/verbs"
)

// remote is the other end of a pair: a port of another host, and the way there and back. What becomes of a packet follows from
// the scenario when it leaves. The lock of the pair's Fabric guards it.
type remote struct {
	*far
	peer verbs.FabricPeer // as this side knows it
	ways []wayEntry
	key  uint64  // seed of its random numbers
	wire float64 // median of one way, in ns

	path   [verbs.MaxFabricPaths]remotePath
	posted int64 // when its thread posted the last echo
	limit  echoLimit
}

// remotePath is one of its UD queue pairs, as far as it has to do with the pair.
type remotePath struct {
	taken       []int64 // when the thread takes the probes that wait for it
	rx, tx, dry uint64
	dries       int64 // dry counts one more after this moment; 0: it does not
	there, back int64 // when the last packet arrives at either end
}

// remoteReceives is the share of a pair in the receives of a queue pair of its peer, which 8 hosts probe.
const remoteReceives = fabricReceives / 8

// draws are the random numbers of a packet and of its answer.
type draws struct {
	chance [2]float64 // of being lost, there and back
	wire   [2]int64   // there and back
	wake   [2]int64   // until the thread there, and the one here, sees it
	delay  int64      // until the answer is posted
	busy   float64    // from 0 to 1
}

// writeDraws is the bit that the numbers of writes have, so that they draw others than probes.
const writeDraws = 1 << 63

// echoDelayMedian is the time from a poll to the post of an echo, in ns.
const echoDelayMedian = 700

// draw returns the random numbers of the nth packet, which are the same whenever it leaves.
func (r *remote) draw(nth uint64) draws {
	random := rand.New(rand.NewPCG(r.key, nth))
	d := draws{chance: [2]float64{random.Float64(), random.Float64()}, busy: random.Float64()}
	for i := range d.wire {
		d.wire[i] = logNormal(random, r.wire, 0.1)
		d.wake[i] = drawWake(random)
	}
	d.delay = logNormal(random, echoDelayMedian, 0.3)
	return d
}

// echo returns the echo of a probe that leaves now, false if none ever comes.
func (r *remote) echo(path int, seq uint64, now int64) (datagram, bool) {
	d, p := r.draw(seq), &r.path[path]
	came, ok := r.pass(forward, path, now, d.chance[0], d.wire[0])
	if !ok {
		return datagram{}, false
	}
	came = max(came, p.there+1) // packets of a path keep their order
	p.there = came
	taken, ok := r.take(p, came, &d)
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
	back, ok := r.pass(reverse, path, r.posted, d.chance[1], d.wire[1]+d.wake[1])
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

// take returns when the thread there takes a probe that came, false if it never does.
func (r *remote) take(p *remotePath, came int64, d *draws) (taken int64, ok bool) {
	if !r.knows(came) {
		return 0, false
	}
	p.taken = slices.DeleteFunc(p.taken, func(at int64) bool { return at <= came })
	if len(p.taken) == remoteReceives {
		return 0, false
	}
	taken = came + d.wake[0]
	if e, _ := r.now(came, peerBusy); e != nil {
		taken += e.took/2 + int64(d.busy*float64(e.took))
	}
	if taken = r.after(taken, peerStopped, peerWorkerStopped); taken != never {
		taken = max(taken, r.posted)
	}
	if p.taken = append(p.taken, taken); len(p.taken) == remoteReceives {
		p.dries = taken
	}
	return taken, taken != never && r.knows(taken)
}

// pass returns when a packet arrives that leaves now, false if it is lost on the way.
func (r *remote) pass(direction string, path int, now int64, chance float64, wire int64) (at int64, ok bool) {
	arrives, delay := fate(r.ways, direction, path, now)
	return now + wire + delay, chance < arrives
}

// knows reports whether the port has the queue pairs at a moment that this side has in mind.
func (r *remote) knows(at int64) bool {
	n := r.numbers(r.epoch(at))
	return n.qkey == r.peer.QKey && slices.Equal(n.ud[:len(r.peer.UD)], r.peer.UD)
}

// acknowledge returns when the acknowledgement of a write comes that leaves now, false if none does.
func (r *remote) acknowledge(nth uint64, now int64) (at int64, ok bool) {
	d := r.draw(nth)
	came, there := r.pass(forward, writePath, now, d.chance[0], d.wire[0])
	back, here := r.pass(reverse, writePath, came, d.chance[1], d.wire[1]+d.wake[1])
	return back, there && here && r.knows(came) && r.peer.RC == r.numbers(r.epoch(came)).rc
}

// probes returns when the probe comes that the port sends now, false if it sends none or if it is lost.
func (r *remote) probes(path int, seq uint64, now int64) (at int64, ok bool) {
	if !r.knows(now) || r.is(now, peerStopped, peerWorkerStopped) {
		return 0, false
	}
	d, p := r.draw(seq), &r.path[path]
	at, ok = r.pass(reverse, path, now, d.chance[1], d.wire[1]+d.wake[1])
	at = max(at, p.back+1)
	p.back = at
	return at, ok
}

// echoLimit is how many more echoes a peer gets in a second.
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

// numbers are those of the queue pairs of a port.
type numbers struct {
	ud   [verbs.MaxFabricPaths]uint32
	qkey uint32
	rc   uint32 // of every pair: a remote does not keep its sessions apart
}

// numbers returns those that a port has in an epoch, of which 0 has none.
func (p *far) numbers(epoch uint64) numbers {
	if epoch == 0 {
		return numbers{}
	}
	random := rand.New(rand.NewPCG(epoch, 1))
	n := numbers{qkey: random.Uint32() >> 1} // the top bit makes it a privileged one
	first := leastNumber + random.Uint32N(maxNumber-leastNumber-verbs.MaxFabricPaths)
	for i := range n.ud {
		n.ud[i] = first + uint32(i)
	}
	n.rc = first + verbs.MaxFabricPaths
	return n
}
