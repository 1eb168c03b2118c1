package timeline

import (
	"fmt"
	"reflect"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// Kinds of records about probes between hosts.
const (
	KindFabricPeer = "fabric_peer" // what is said of a pair with another host
	KindFabricPort = "fabric_port" // what is said of a port that probes other hosts
	KindFabricPair = "fabric_pair" // a pair as it is now
)

func fabricKinds() []kind {
	ofPair := kind{
		name:    KindFabricPair,
		isWhole: func(r *Record) bool { return r.Peer != nil },
		words: func(s Style, r *Record) wording {
			return wording{name: s.Word(r.Peer, 0) + "  " + r.Peer.Line()} // it stands behind names, and not in a column
		},
	}
	ofPeer := ofPair
	ofPeer.name, ofPeer.yields = KindFabricPeer, true
	return []kind{ofPair, ofPeer, {
		name:    KindFabricPort,
		isWhole: func(r *Record) bool { return r.Fabric != nil },
		words: func(_ Style, r *Record) wording {
			return wording{string(r.Fabric.Verdict), r.Fabric.line(), colourIf(r.Fabric.Verdict == verdict.VerdictOK, green, Red)}
		},
	}}
}

// Peer is the other end of a pair, and what is said of the pair.
type Peer struct {
	Host   string         `json:"host"`
	Device string         `json:"device,omitempty"` // not known before they have met
	Group  string         `json:"group"`
	Scope  pinglist.Scope `json:"scope"`

	Verdict verdict.Verdict `json:"verdict,omitempty"` // "": they have not met, for Reason
	Reason  verdict.Reason  `json:"reason,omitempty"`
	Bad     bool            `json:"bad"`              // the network is blamed
	AgeNS   int64           `json:"age_ns,omitempty"` // how long that has been so
	// Was is the verdict or the reason before, and LastedNS how long it held. Of changes alone.
	Was      string `json:"was,omitempty"`
	LastedNS int64  `json:"lasted_ns,omitempty"`

	SilentNS   int64  `json:"silent_ns,omitempty"` // since the first probe without an echo
	Direction  string `json:"direction,omitempty"` // of lost probes: forward, reverse or both
	Path       *int   `json:"path,omitempty"`      // that is silent, with the verdict partial
	Lost       uint64 `json:"lost"`                // probes in the network since they met, in both directions
	WriteNSP50 int64  `json:"write_ns_p50,omitempty"`
	State      string `json:"state,omitempty"` // what the peer's process said last of its port
}

// NewPeer returns what a point says. A terminal can be shown it: a peer chooses the names of its devices.
func NewPeer(p *measure.FabricPeer) *Peer {
	out := &Peer{
		Host: p.PeerHost, Device: p.PeerDevice, Group: p.PeerGroup, Scope: p.Scope, Verdict: p.Verdict, Reason: p.Reason, Bad: p.Bad,
		AgeNS: p.AgeNS, SilentNS: p.SilentNS, Direction: p.Direction, Lost: p.Probes.Lost(), WriteNSP50: p.WriteNSP50, State: p.State,
	}
	if path := p.Path; path >= 0 && p.Verdict == verdict.VerdictPartial {
		out.Path = &path
	}
	makePrintable(reflect.ValueOf(out))
	return out
}

// Name returns the host and its device, as in "gpu042 mlx5_0".
func (p *Peer) Name() string {
	if p.Device == "" {
		return p.Host
	}
	return p.Host + " " + p.Device
}

// IsWell reports whether both witnesses answer, and nothing is lost.
func (p *Peer) IsWell() bool { return p.Verdict == verdict.VerdictOK }

// Severity orders pairs: the greater, the worse.
func (p *Peer) Severity() int {
	if p.Verdict == "" {
		row, _ := p.Reason.Row()
		return row.Severity
	}
	row, _ := p.Verdict.Row()
	return row.Severity
}

// Word returns what is said of the pair in a word or two: the verdict, or as in "not met: key".
func (p *Peer) Word() string {
	if p.Verdict == "" {
		return "not met: " + string(p.Reason)
	}
	return string(p.Verdict)
}

// Line returns what the verdict or the reason means here, in words.
func (p *Peer) Line() string {
	switch v := p.Verdict; {
	case v == "":
		text := p.Reason.Text()
		if fix := p.Reason.Fix(); fix != "" {
			text += "; " + fix
		}
		return text
	case v == verdict.VerdictOK && p.Was != "":
		return p.over()
	default:
		return v.Explain(verdict.Details{For: p.silent(), State: p.State, Path: p.path(), More: p.more()})
	}
}

func (p *Peer) silent() string {
	if p.SilentNS <= 0 {
		return ""
	}
	return " for " + Duration(p.SilentNS)
}

// over returns what there was before the pair became well.
func (p *Peer) over() string {
	lasted := "after " + Duration(p.LastedNS)
	if _, unmet := verdict.Reason(p.Was).Row(); unmet && p.Was != string(verdict.VerdictStarting) {
		return lasted + " not met: " + p.Was
	}
	return lasted + " of " + p.Was
}

// path returns the path that is silent, "" if it is not known.
func (p *Peer) path() string {
	switch {
	case p.Path == nil:
		return ""
	case *p.Path >= verbs.MaxFabricPaths:
		return "the write's path"
	}
	return fmt.Sprintf("path %d", *p.Path)
}

// more returns the numbers that go with the verdict.
func (p *Peer) more() string {
	switch {
	case p.Verdict.Direction() != "":
		return fmt.Sprintf(", %d so far", p.Lost)
	case p.WriteNSP50 > 0:
		return ", writes in " + Duration(p.WriteNSP50)
	}
	return ""
}

// colour returns that of what is said of the pair.
func (p *Peer) colour() string {
	row, judged := p.Verdict.Row()
	reason, _ := p.Reason.Row()
	switch {
	case p.IsWell():
		return green
	case row.Blames == verdict.BlameNobody, !judged && reason.Blames == verdict.BlameNobody:
		return Dim
	case row.Blames == verdict.BlameOwn, row.Blames == verdict.BlameNetwork:
		return Red
	}
	return yellow
}

// Word returns Peer.Word in its colour, with blanks up to a width.
func (s Style) Word(p *Peer, width int) string {
	return s.Paint(p.colour(), fmt.Sprintf("%-*s", width, p.Word()))
}

// Fabric is what is said of a port that probes other hosts.
type Fabric struct {
	Verdict  verdict.Verdict `json:"verdict"` // ok, own_port or own_link
	Was      verdict.Verdict `json:"was,omitempty"`
	LastedNS int64           `json:"lasted_ns,omitempty"` // in Was
	Pairs    int64           `json:"pairs"`
	Met      int64           `json:"pairs_met"`
	List     string          `json:"list,omitempty"` // the digest of the list of hosts
}

// OwnText returns what a verdict on the own port means, "" if it is well.
func OwnText(v verdict.Verdict) string {
	if v == verdict.VerdictOK {
		return ""
	}
	return v.Text()
}

func (f *Fabric) line() string {
	if f.Verdict == verdict.VerdictOK && f.Was != "" {
		return "after " + Duration(f.LastedNS) + " of " + string(f.Was)
	}
	return OwnText(f.Verdict)
}

// Pair holds what became of the probes and writes of a pair, since it is there. Percentiles are of the window, in ns; 0: not known.
type Pair struct {
	OwnVerdict verdict.Verdict `json:"own_verdict,omitempty"` // of the own port
	verdict.Counts
	EchoNSP50  int64 `json:"echo_ns_p50,omitempty"`
	EchoNSP99  int64 `json:"echo_ns_p99,omitempty"`
	WriteNSP50 int64 `json:"write_ns_p50,omitempty"`
	WriteNSP99 int64 `json:"write_ns_p99,omitempty"`
}

// NewPair returns the record of a pair as it is now.
func NewPair(p *measure.FabricPeer, echo, write aggregate.Percentiles, ownVerdict verdict.Verdict) Record {
	return Record{
		Time: p.At, Kind: KindFabricPair, Device: p.Device, Port: p.Port, Peer: NewPeer(p), Pair: &Pair{
			OwnVerdict: ownVerdict, Counts: p.Probes,
			EchoNSP50: echo.P50, EchoNSP99: echo.P99, WriteNSP50: write.P50, WriteNSP99: write.P99,
		},
	}
}
