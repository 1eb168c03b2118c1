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
	KindFabricPeer = "fabric_peer" // the verdict on a pair changed
	KindFabricPort = "fabric_port" // the verdict on a port that probes other hosts changed
	KindFabricPair = "fabric_pair" // current state of a pair
)

func fabricKinds() []kind {
	ofPair := kind{
		name:    KindFabricPair,
		isWhole: func(r *Record) bool { return r.Peer != nil },
		words: func(s Style, r *Record) wording {
			return wording{name: s.Word(r.Peer, 0) + "  " + r.Peer.Line()} // not in columns, because it follows names of any length
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

// Peer is the other end of a pair, with the verdict on the pair.
type Peer struct {
	Host   string         `json:"host"`
	Device string         `json:"device,omitempty"` // not known before the two have met
	Group  string         `json:"group"`
	Scope  pinglist.Scope `json:"scope"`

	Verdict verdict.Verdict `json:"verdict,omitempty"` // "": the two have not met, because of Reason
	Reason  verdict.Reason  `json:"reason,omitempty"`
	Bad     bool            `json:"bad"`              // the verdict blames the network
	AgeNS   int64           `json:"age_ns,omitempty"` // age of the verdict or reason
	// Was is the previous verdict or reason, and LastedNS the time for which it held. Both are set only in changes.
	Was      string `json:"was,omitempty"`
	LastedNS int64  `json:"lasted_ns,omitempty"`

	SilentNS   int64  `json:"silent_ns,omitempty"` // since the first probe without an echo
	Direction  string `json:"direction,omitempty"` // of the lost probes: forward, reverse or both
	Path       *int   `json:"path,omitempty"`      // index of the silent path, with the verdict partial
	Lost       uint64 `json:"lost"`                // probes lost in the network since the two met, in both directions
	WriteNSP50 int64  `json:"write_ns_p50,omitempty"`
	State      string `json:"state,omitempty"` // of the peer's port, as its process last reported it
}

// NewPeer returns the Peer of a point. It is safe for a terminal, although a peer can choose any names for its devices.
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

// Name returns the host and its device, such as "gpu042 mlx5_0".
func (p *Peer) Name() string {
	if p.Device == "" {
		return p.Host
	}
	return p.Host + " " + p.Device
}

// IsWell reports whether the verdict is ok: echoes and writes are answered, and no probe is lost.
func (p *Peer) IsWell() bool { return p.Verdict == verdict.VerdictOK }

// Severity returns the severity of the verdict or reason. A greater value is worse.
func (p *Peer) Severity() int {
	if p.Verdict == "" {
		row, _ := p.Reason.Row()
		return row.Severity
	}
	row, _ := p.Verdict.Row()
	return row.Severity
}

// Word returns the verdict, or the reason in the form "not met: key".
func (p *Peer) Word() string {
	if p.Verdict == "" {
		return "not met: " + string(p.Reason)
	}
	return string(p.Verdict)
}

// Line returns the meaning of the verdict or reason for this pair, in words.
func (p *Peer) Line() string {
	switch v := p.Verdict; {
	case v == "":
		text := p.Reason.Text()
		if fix := p.Reason.Fix(); fix != "" {
			text += "; " + fix
		}
		return text
	case v == verdict.VerdictOK && p.Was != "":
		return p.recoveryText()
	default:
		return v.Explain(verdict.Details{For: p.silenceText(), State: p.State, Path: p.pathText(), More: p.numbersText()})
	}
}

func (p *Peer) silenceText() string {
	if p.SilentNS <= 0 {
		return ""
	}
	return " for " + Duration(p.SilentNS)
}

// recoveryText returns the previous verdict or reason of a pair that has recovered.
func (p *Peer) recoveryText() string {
	lasted := "after " + Duration(p.LastedNS)
	if _, unmet := verdict.Reason(p.Was).Row(); unmet && p.Was != string(verdict.VerdictStarting) {
		return lasted + " not met: " + p.Was
	}
	return lasted + " of " + p.Was
}

// pathText returns the silent path, or "" if it is not known.
func (p *Peer) pathText() string {
	switch {
	case p.Path == nil:
		return ""
	case *p.Path >= verbs.MaxFabricPaths:
		return "the write's path"
	}
	return fmt.Sprintf("path %d", *p.Path)
}

// numbersText returns the numbers that go with the verdict.
func (p *Peer) numbersText() string {
	switch {
	case p.Verdict.Direction() != "":
		return fmt.Sprintf(", %d so far", p.Lost)
	case p.WriteNSP50 > 0:
		return ", writes in " + Duration(p.WriteNSP50)
	}
	return ""
}

// colour returns the colour of the verdict or reason.
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

// Word returns Peer.Word in its colour, padded with blanks to a width.
func (s Style) Word(p *Peer, width int) string {
	return s.Paint(p.colour(), fmt.Sprintf("%-*s", width, p.Word()))
}

// Fabric describes a port that probes other hosts, with the verdict on the port itself.
type Fabric struct {
	Verdict  verdict.Verdict `json:"verdict"` // ok, own_port or own_link
	Was      verdict.Verdict `json:"was,omitempty"`
	LastedNS int64           `json:"lasted_ns,omitempty"` // time for which Was held
	Pairs    int64           `json:"pairs"`
	Met      int64           `json:"pairs_met"`
	List     string          `json:"list,omitempty"` // digest of the peer list
}

// OwnText returns the meaning of a verdict on a port of this host, or "" if the verdict is ok.
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

// Pair holds the outcomes of the probes and writes of a pair since the pair exists. Percentiles are of the window, in ns; 0: not
// known.
type Pair struct {
	OwnVerdict verdict.Verdict `json:"own_verdict,omitempty"` // on the port of this host
	verdict.Counts
	EchoNSP50  int64 `json:"echo_ns_p50,omitempty"`
	EchoNSP99  int64 `json:"echo_ns_p99,omitempty"`
	WriteNSP50 int64 `json:"write_ns_p50,omitempty"`
	WriteNSP99 int64 `json:"write_ns_p99,omitempty"`
}

// NewPair returns a record of the current state of a pair.
func NewPair(p *measure.FabricPeer, echo, write aggregate.Percentiles, ownVerdict verdict.Verdict) Record {
	return Record{
		Time: p.At, Kind: KindFabricPair, Device: p.Device, Port: p.Port, Peer: NewPeer(p), Pair: &Pair{
			OwnVerdict: ownVerdict, Counts: p.Probes,
			EchoNSP50: echo.P50, EchoNSP99: echo.P99, WriteNSP50: write.P50, WriteNSP99: write.P99,
		},
	}
}
