package peers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/simulated/devices"
)

// observer is a port that probes hosts and judges them like a host process. It runs in a synctest bubble.
type observer struct {
	*testing.T
	w        *devices.World
	led      *ledger.Ledger
	fabric   verbs.FabricEndpoint
	port     verbs.FabricPort
	began    int64
	pairs    []*observed
	sessions uint64
	facts    []verbs.FabricFact // all facts so far
	own      []string           // verdicts of the port
}

// observed is one pair of an observer.
type observed struct {
	*observer
	place          int
	name           string
	peer           exchange.Peer
	talk           exchange.Conversation
	session        uint64
	met            exchange.Answer
	epoch          uint64 // last known epoch of the peer's port
	connectedEpoch uint64 // epoch of the last connection; 0: not connected
	failed         int64  // time of the last failed write
	retryAt        int64  // earliest time of the next reconnection of its queue pair
	pause          time.Duration
	tracker        *verdict.Tracker
	judge          *verdict.Judge
	sample         verdict.Sample
	asked          chan exchange.PortState // receives the answer to a State request; nil: no request is under way
	verdicts       []string
}

const paths = 4

// loadWorld loads a world with the clock of the synctest bubble.
func loadWorld(t *testing.T, o devices.Options) *devices.World {
	t.Helper()
	o.Clock = func() int64 { return time.Now().UnixNano() }
	w, err := devices.Load(o)
	require.NoError(t, err)
	return w
}

// newObserver loads a world, opens its sim0 and connects the port to hosts.
func newObserver(t *testing.T, of devices.Options, hosts ...string) *observer {
	t.Helper()
	w := loadWorld(t, of)
	o := &observer{T: t, w: w, began: w.Now(), sessions: 100}
	led, file, err := ledger.New("fabric")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	o.led = led
	dev, err := devices.New(w).Open("sim0", led)
	require.NoError(t, err)
	o.fabric, o.port, err = dev.NewFabricEndpoint(verbs.FabricConfig{Port: 1, FabricOptions: verbs.FabricOptions{
		Paths: paths, Interval: 500 * time.Millisecond, GIDIndex: -1, PKeyIndex: -1,
	}})
	require.NoError(t, err)
	o.port.Epoch = 1
	t.Cleanup(func() {
		for _, p := range o.pairs {
			require.NoError(t, p.peer.Close())
		}
		require.NoError(t, o.fabric.Close(time.Second))
		require.NoError(t, dev.Close(time.Second))
		require.NoError(t, led.Close())
	})
	for _, host := range hosts {
		o.add(host)
	}
	return o
}

func (o *observer) add(host string) *observed {
	o.Helper()
	p := &observed{
		observer: o, place: len(o.pairs), name: host, judge: verdict.NewJudge(o.w.Now()),
		tracker: verdict.NewTracker(paths), pause: time.Second,
	}
	var err error
	p.peer, err = New(o.w).Peer(pinglist.Host{Name: host})
	require.NoError(o, err)
	o.pairs = append(o.pairs, p)
	p.note()
	p.connect()
	return p
}

// connect connects the pair anew if that is possible now.
func (p *observed) connect() {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if p.talk == nil || p.talk.Err() != nil {
		talk, err := p.peer.Converse(ctx, "digest")
		if p.talk = talk; err != nil {
			p.talk = nil
			return
		}
		require.Equal(p, "digest", talk.Digest())
	}
	p.sessions++
	p.session = p.sessions
	p.join(ctx)
}

func (p *observed) join(ctx context.Context) {
	rc, err := p.fabric.Offer(p.place, verbs.FabricProbes)
	require.NoError(p, err)
	own := exchange.Port{Device: "sim0", FabricPort: p.port}
	p.met, err = p.talk.Offer(ctx, exchange.Offer{Session: p.session, Port: own, RC: rc})
	if err != nil || p.met.Reason != "" {
		require.NoError(p, p.fabric.Leave(p.place))
		return
	}
	q := p.met.Port
	require.NoError(p, p.fabric.Join(p.place, &verbs.FabricPeer{
		Host: p.name, Device: q.Device, Port: q.Port, Session: p.session, UD: q.UD, QKey: q.QKey,
		RC: p.met.RC, PSN: p.met.PSN, GID: q.GIDs[0].Raw, LID: q.LID, First: time.Duration(50*p.place+10) * time.Millisecond,
	}))
	p.tracker.EndSession()
	p.epoch = q.Epoch
	if p.connectedEpoch != q.Epoch {
		p.connectedEpoch, p.judge, p.sample = q.Epoch, verdict.NewJudge(p.w.Now()), verdict.Sample{}
		p.note()
	}
}

// runUntil runs the Fabric until a time of the scenario.
func (o *observer) runUntil(at time.Duration) *observer {
	o.Helper()
	facts := make([]verbs.FabricFact, verbs.MinFabricFacts)
	for end := o.began + int64(at); o.w.Now() < end; {
		// The step differs from the interval of rounds, so that samples are not always taken just after a probe was sent.
		lasting := min(487*time.Millisecond, time.Duration(end-o.w.Now()))
		for _, p := range o.pairs {
			if since, _ := p.tracker.Unanswered(); since != 0 {
				lasting = min(lasting, 47*time.Millisecond)
			}
		}
		n, upTo, err := o.fabric.Run(facts, lasting)
		require.NoError(o, err)
		o.take(facts[:n], upTo)
	}
	return o
}

func (o *observer) take(facts []verbs.FabricFact, upTo int64) {
	o.facts = append(o.facts, facts...)
	for i := range facts {
		if f := &facts[i]; f.Pair >= 0 && o.pairs[f.Pair].session == f.Session {
			o.pairs[f.Pair].see(f)
		}
	}
	var verdicts []verdict.PeerVerdict
	for _, p := range o.pairs {
		p.update(upTo)
		v, _ := p.judge.Verdict()
		verdicts = append(verdicts, verdict.PeerVerdict{Host: p.name, Verdict: v})
	}
	o.own = appendIfNew(o.own, string(verdict.JudgePort(true, verdicts)))
}

func (p *observed) see(f *verbs.FabricFact) {
	switch f.Kind {
	case verbs.FabricSent:
		require.Equal(p, f.Seq, p.tracker.AddProbe(f.Path, f.At))
	case verbs.FabricEcho:
		e := verdict.Echo{Path: f.Path, Seq: f.Seq, Received: f.Received, Posted: f.Posted, Dry: f.Dry}
		require.True(p, p.tracker.AddEcho(e, f.At))
	case verbs.FabricWrite:
		p.tracker.AddWrite(f.At)
	case verbs.FabricWriteDone:
		p.tracker.CompleteWrite(f.At, f.Took)
	case verbs.FabricWriteFailed:
		p.tracker.FailWrite()
		p.failed, p.retryAt = f.At, f.At+int64(p.pause)
		p.pause = min(2*p.pause, time.Minute)
	}
}

// update updates the verdict and acts on it like a host process.
func (p *observed) update(upTo int64) {
	p.tracker.FillSample(&p.sample, upTo)
	p.requestState()
	if p.connectedEpoch != 0 && p.judge.Update(&p.sample) {
		p.note()
	}
	p.handleChange()
	switch stale := p.epoch != 0 && p.epoch != p.met.Port.Epoch; {
	case p.talk == nil || p.talk.Err() != nil || stale:
		p.connect()
	case p.sample.WriteFailed && p.sample.Echoed > p.failed && upTo >= p.retryAt:
		p.connect()
	case p.sample.WriteDone > p.failed:
		p.pause = time.Second
	}
}

// handleChange handles a change of the peer's port.
func (p *observed) handleChange() {
	if p.talk == nil {
		return
	}
	select {
	case c, ok := <-p.talk.Changes():
		if ok && c.Device == p.met.Port.Device && c.Port == p.met.Port.Port {
			p.epoch = c.Epoch
		}
	default:
	}
}

// requestState requests the state of the peer's process if both echo and write are silent.
func (p *observed) requestState() {
	select {
	case s, ok := <-p.asked:
		p.asked = nil
		if active := s.State == verbs.PortActive; ok && (!active || s.Epoch == p.met.Port.Epoch) {
			p.sample.Answers, p.sample.PeerActive = p.sample.At, active
		} else if ok {
			p.epoch = s.Epoch
		}
	default:
	}
	if p.asked != nil || p.sample.Silent == 0 || p.sample.WriteSince == 0 && !p.sample.WriteFailed {
		return
	}
	answer := make(chan exchange.PortState, 1)
	p.asked = answer
	q := p.met.Port
	go func() { // it ends with its context, before the bubble ends
		defer close(answer)
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		state, err := p.peer.State(ctx, nil)
		for _, s := range state.Ports {
			if err == nil && s.Device == q.Device && s.Port == q.Port {
				answer <- s
			}
		}
	}()
}

func (p *observed) note() {
	v, _ := p.judge.Verdict()
	text := string(v)
	if v == verdict.VerdictPartial {
		text = fmt.Sprintf("%s %d", v, p.judge.Path())
	}
	p.verdicts = appendIfNew(p.verdicts, text)
}

// appendIfNew appends a verdict if it differs from the last one.
func appendIfNew(all []string, verdict string) []string {
	if len(all) == 0 || all[len(all)-1] != verdict {
		all = append(all, verdict)
	}
	return all
}
