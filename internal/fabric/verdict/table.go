package verdict

import "strings"

// Blame names who has to act on a verdict or a reason.
type Blame string

// Who has to act.
const (
	BlameOwn     Blame = "own"     // this host: its own port
	BlameNetwork Blame = "network" // the network between the two hosts
	BlamePeer    Blame = "peer"    // the other host
	BlameEither  Blame = "either"  // the two hosts do not fit each other, and one alone cannot tell which of them is wrong
	BlameNobody  Blame = "nobody"
)

// Row describes a verdict to those who read about it. A text may have the placeholders of Details.
type Row struct {
	Verdict    Verdict
	OfPair     bool // pairs can have it
	OfPort     bool // own ports can have it
	Blames     Blame
	Direction  string // of the lost packets: forward (to the peer), reverse or both; "": not known, or none are lost
	Severity   int    // the greater, the worse; reasons are on the same scale
	Precedence int    // of the evidence, for a Judge; -1: no Judge gives this verdict
	Unanswered bool   // the pair gets no echo at all, and it is known since when
	Blackhole  bool   // the network passes nothing, at least on one path
	Text       string // what it means, in a sentence without capital and full stop
	Begins     string // when
	Do         string
	Colour     string // of Grafana, or grey
}

// ReasonRow describes a reason why a pair has not met.
type ReasonRow struct {
	Reason   Reason
	Blames   Blame
	Severity int    // see Row
	Rests    bool   // it says nothing of the peer
	Text     string // as it follows "not met:"
	Do       string
	Colour   string
}

// The rows are in the order of their severity, the worst first. Severity is what an operator acts on first, by whom the row blames:
//
//   - This host's own port comes first. The verdict names one link, a critical alert tells to drain the host, and the verdicts of its
//     pairs follow from it. Repairing the link ends all of them.
//   - Then the network, by how much of a pair's traffic is lost: all of it, that of a path, a share in both directions or in one. An echo
//     that is lost on the way back is no worse than a probe that is lost on the way there; their order is arbitrary and only has to be one.
//   - Then a peer that cannot be reached: its own host reports that, or it is being rebooted.
//   - Then pairs that have not met: nothing fails, but nothing is watched. What somebody has to set right comes before hosts that may be off,
//     and before pairs that rest with the own port, whose verdict comes first already.
//   - Then a busy peer, which never alerts, and what passes or is meant to be so.
//
// Precedence is another thing, and no severity: it says which evidence replaces which while a pair is not well. A silence replaces a
// loss, since it covers the loss. The peer's word that its port is not active replaces a blame of the network, although it is milder:
// otherwise a pair would blame the network until the port is back.
var verdictRows = []Row{
	{
		Verdict: VerdictOwnPort, OfPort: true, Blames: BlameOwn, Severity: 24, Precedence: -1, Colour: "dark-red",
		Text:   "the own port is not active: its pairs rest, and nothing is said of peers",
		Begins: "the port is not active",
		Do:     "look at the own port: its alert port-down",
	},
	{
		Verdict: VerdictOwnLink, OfPair: true, OfPort: true, Blames: BlameOwn, Severity: 23, Precedence: -1, Colour: "dark-red",
		Text: "most pairs of the own port are bad at once: its own link is at fault (cable, transceiver or switch port)",
		Begins: "three quarters of four or more pairs of the port, with two hosts or more, blame the network at once, and not all of them are " +
			"merely partial; if the port has pairs within its group, one of them is bad too",
		Do: "look at the own port's cable, transceiver and switch port. Most hosts of a group at once are their leaf",
	},
	{
		Verdict: VerdictPath, OfPair: true, Blames: BlameNetwork, Severity: 22, Precedence: 8, Unanswered: true, Blackhole: true, Colour: "red",
		Text: "echo and write silent{for}, its process answers",
		Begins: "three probes are unanswered, the oldest for 250 ms, and so is the write; the peer's process says over TCP that it still answers " +
			"this pair, and that its port is active",
		Do: "nothing comes through: look who else says so of this peer (suspects), and at the own port",
	},
	{
		Verdict: VerdictPartial, OfPair: true, Blames: BlameNetwork, Severity: 21, Precedence: 6, Blackhole: true, Colour: "orange",
		Text:   "{path} silent, others are not",
		Begins: "one path, or the write's, has missed eight rounds in a row that later ones on other paths overtook",
		Do: "path says which one: an uplink, or a spine that one hash in several takes. The write's path comes after those of " +
			"the probes",
	},
	{
		Verdict: VerdictLossyBoth, OfPair: true, Blames: BlameNetwork, Direction: "both", Severity: 20, Precedence: 5, Colour: "dark-orange",
		Text:   "probes lost in both directions{more}",
		Begins: "within a minute three probes or more, and 2 %, were lost on the way there, and as many echoes on the way back",
		Do:     "a cable, a transceiver or a congested queue that both directions share",
	},
	{
		Verdict: VerdictLossyReverse, OfPair: true, Blames: BlameNetwork, Direction: "reverse", Severity: 19, Precedence: 4, Colour: "light-orange",
		Text:   "echoes lost on the way back{more}",
		Begins: "within a minute three echoes or more, and 2 % of the probes, were lost on the way back",
		Do:     "a cable, a transceiver or a congested queue on the way back: what the peer sends",
	},
	{
		Verdict: VerdictLossyForward, OfPair: true, Blames: BlameNetwork, Direction: "forward", Severity: 18, Precedence: 3, Colour: "semi-dark-orange",
		Text:   "probes lost on the way there{more}",
		Begins: "within a minute three probes or more, and 2 %, were lost on the way there",
		Do:     "a cable, a transceiver or a congested queue on the way there: what the peer receives",
	},
	{
		Verdict: VerdictPeerPort, OfPair: true, Blames: BlamePeer, Severity: 17, Precedence: 9, Unanswered: true, Colour: "dark-yellow",
		Text:   "echo and write silent{for}, its process says that its port is {state}",
		Begins: "echo and write are silent as with path, and the peer's process says that its port is not active",
		Do:     "look at the peer: its alert port-down",
	},
	{
		Verdict: VerdictPeerDown, OfPair: true, Blames: BlamePeer, Severity: 16, Precedence: 7, Unanswered: true, Colour: "yellow",
		Text:   "echo, write and its process silent{for}",
		Begins: "echo and write are silent as with path, and the peer's process does not answer within 750 ms either",
		Do:     "look at the peer: it is off or hangs, or both networks are cut",
	},
	{
		Verdict: VerdictPeerBusy, OfPair: true, Blames: BlamePeer, Severity: 4, Precedence: 2, Unanswered: true, Colour: "blue",
		Text:   "its process does not echo{for}, its device answers",
		Begins: "three probes are unanswered, the oldest for 2 s, and the peer's NIC acknowledges writes",
		Do:     "the peer's host is stopped or short of processor; the network is whole. It never alerts",
	},
	{
		Verdict: VerdictStarting, OfPair: true, Blames: BlameNobody, Severity: 3, Precedence: 1, Colour: "light-blue",
		Text:   "they have met; an echo and a write are awaited",
		Begins: "they meet; it lasts until both witnesses have answered, at most 10 s",
		Do:     "wait",
	},
	{
		Verdict: VerdictOK, OfPair: true, OfPort: true, Blames: BlameNobody, Colour: "green",
		Text:   "echoes and writes come{more}",
		Begins: "both witnesses have answered, and after another verdict for 5 s",
		Do:     "nothing",
	},
}

var reasonRows = []ReasonRow{
	{
		Reason: ReasonKey, Blames: BlameEither, Severity: 15, Colour: "red",
		Text: "it has another key, its certificate has expired or is of another authority or name, or another host has its address",
		Do: "give both hosts the same fabric.key_file and restart the plugin, or valid certificates of one authority; look at its address in " +
			"the list",
	},
	{
		Reason: ReasonNotListed, Blames: BlameEither, Severity: 14, Colour: "orange",
		Text: "its list does not have this host",
		Do:   "give all hosts the same fabric.peers_file, and compare this host's name there with fabric.host",
	},
	{
		Reason: ReasonVersion, Blames: BlameEither, Severity: 13, Colour: "light-yellow",
		Text: "its version cannot talk to this one",
		Do:   "install the same version on both hosts",
	},
	{
		Reason: ReasonPKey, Blames: BlameEither, Severity: 12, Colour: "light-red",
		Text: "the P_Keys differ, or neither is of a full member",
		Do:   "put both ports into one partition, one of them as a full member, or choose it with probe.pkey_index",
	},
	{
		Reason: ReasonNoCommonGID, Blames: BlameEither, Severity: 11, Colour: "blue",
		Text: "no GID of the port fits one of the peer's",
		Do: "compare the addresses of both ports, which have to be of one family, and probe.gid_index; whoever runs the network assigns " +
			"addresses",
	},
	{
		Reason: ReasonFailed, Blames: BlameEither, Severity: 10, Colour: "dark-red",
		Text: "a device refuses to connect or to send, or the host refuses",
		Do:   "look for the call in the log, at level debug; it is tried again within a minute",
	},
	{
		Reason: ReasonFull, Blames: BlamePeer, Severity: 9, Colour: "light-orange",
		Text: "its port has as many pairs as it takes",
		Do:   "give all hosts the same list, or lower fabric.peers on all hosts alike",
	},
	{
		Reason: ReasonNoResponder, Blames: BlamePeer, Severity: 8, Colour: "yellow",
		Text: "no process answers there",
		Do:   "run the plugin there with fabric.peers_file, let its TCP port through, and look at its address in the list",
	},
	{
		Reason: ReasonNotActive, Blames: BlamePeer, Severity: 7, Colour: "dark-yellow",
		Text: "its port is not active",
		Do:   "look at the peer: its alert port-down",
	},
	{
		Reason: ReasonOwnPort, Blames: BlameOwn, Severity: 6, Rests: true, Colour: "dark-yellow",
		Text: "the own port is not active, or its worker does not run",
		Do:   "look at the own device, which has alerts of its own",
	},
	{
		Reason: ReasonStarting, Blames: BlameNobody, Severity: 2, Rests: true, Colour: "light-blue",
		Text: "it has not been tried yet",
		Do:   "wait",
	},
	{
		Reason: ReasonUnsupported, Blames: BlameNobody, Severity: 1, Colour: "grey",
		Text: "it has no device that fits, or another link layer",
		Do:   "nothing, where hosts differ on purpose; else limit fabric.devices to those that all hosts have",
	},
}

// Verdicts returns a row for each verdict, the worst first.
func Verdicts() []Row { return append([]Row(nil), verdictRows...) }

// Reasons returns a row for each reason but ReasonNone, the worst first.
func Reasons() []ReasonRow { return append([]ReasonRow(nil), reasonRows...) }

// Row returns the row of a verdict. ok is false for one that this version does not know.
func (v Verdict) Row() (row Row, ok bool) {
	if found := v.tableRow(); found != nil {
		return *found, true
	}
	return Row{Severity: -1, Precedence: -1}, false
}

func (v Verdict) tableRow() *Row {
	for i := range verdictRows {
		if verdictRows[i].Verdict == v {
			return &verdictRows[i]
		}
	}
	return nil
}

// Row returns the row of a reason. ok is false for ReasonNone and for a reason that this version does not know.
func (r Reason) Row() (row ReasonRow, ok bool) {
	for i := range reasonRows {
		if reasonRows[i].Reason == r {
			return reasonRows[i], true
		}
	}
	return ReasonRow{Severity: -1}, false
}

// Details fill the text of a verdict with what is known of one pair. What is "" has a general word in its place, or none.
type Details struct {
	For   string // since when the peer is silent, as in " for 2.1s"
	State string // of the peer's port, as its process says
	Path  string // that is silent, as in "path 2"
	More  string // as in ", 17 so far"
}

// Explain returns what a verdict means for a pair, and "" for a verdict that this version does not know.
func (v Verdict) Explain(d Details) string {
	row := v.tableRow()
	if row == nil {
		return ""
	}
	if d.State == "" {
		d.State = "not active"
	}
	if d.Path == "" {
		d.Path = "one path"
	}
	return strings.NewReplacer("{for}", d.For, "{state}", d.State, "{path}", d.Path, "{more}", d.More).Replace(row.Text)
}

// Text returns what a verdict means for any pair.
func (v Verdict) Text() string { return v.Explain(Details{}) }

// Text returns the reason in words, as they follow "not met:". One that this version does not know is its own text.
func (r Reason) Text() string {
	if r == ReasonNone {
		return "they have met"
	}
	if row, ok := r.Row(); ok {
		return row.Text
	}
	return string(r)
}

// Fix returns what to do about it.
func (r Reason) Fix() string {
	row, _ := r.Row()
	return row.Do
}
