package verdict

import "strings"

// Blame names the party that has to act on a verdict or a reason.
type Blame string

// The parties that may have to act.
const (
	BlameOwn     Blame = "own"     // this host: its own port
	BlameNetwork Blame = "network" // the network between the two hosts
	BlamePeer    Blame = "peer"    // the other host
	BlameEither  Blame = "either"  // the settings of the two hosts differ, and neither host can tell which one is wrong
	BlameNobody  Blame = "nobody"
)

// Row describes a verdict in output and documents. Text may contain the placeholders of Details.
type Row struct {
	Verdict    Verdict
	OfPair     bool // the verdict applies to pairs
	OfPort     bool // the verdict applies to ports of this host
	Blames     Blame
	Direction  string // of the lost packets: forward (to the peer), reverse or both; "": not known, or none are lost
	Severity   int    // a higher value is worse; verdicts and reasons share one scale
	Precedence int    // rank of the evidence, for a Judge; -1: no Judge returns this verdict
	Unanswered bool   // the pair receives no echo at all, and the start of the silence is known
	Blackhole  bool   // the network delivers nothing on at least one path
	Text       string // the meaning, as a sentence without capital letter and full stop
	Begins     string // the condition under which the verdict begins
	Do         string // the advice
	Colour     string // a colour name of Grafana, or grey
}

// ReasonRow describes a reason why a pair is not connected.
type ReasonRow struct {
	Reason       Reason
	Blames       Blame
	Severity     int    // see Row
	NotAboutPeer bool   // the reason is no fault of the peer
	Text         string // the meaning, as a phrase without capital letter and full stop
	Do           string // the advice
	Colour       string
}

// verdictRows has one row for each verdict, sorted by severity with the worst first. Severity tells an operator what to act on first:
//
//   - The port of this host comes first. The verdict names one link, a critical alert advises draining the host, and the verdicts of the
//     port's pairs are consequences. Repairing the link ends all of them.
//   - The network comes next, ordered by the share of a pair's traffic that is lost: everything, everything on one path, some in both
//     directions, some in one direction. A lost echo is as bad as a lost probe. The order of these two verdicts is arbitrary.
//   - Next is a peer that cannot be reached. Its own host reports the fault, or is being rebooted.
//   - Next are pairs that are not connected: nothing fails, but nothing is monitored. Faults that somebody has to repair come before hosts that
//     may be switched off, and before pairs that are paused because of the own port, whose verdict comes first already.
//   - Last are a busy peer, which never raises an alert, and states that are temporary or intended.
//
// Precedence is independent of severity. It decides which evidence replaces which while a pair is not ok. Silence replaces loss because it
// includes the loss. A peer's report that its port is not active replaces a verdict that blames the network, although it is less severe:
// otherwise the pair would blame the network until the port is active again.
var verdictRows = []Row{
	{
		Verdict: VerdictOwnPort, OfPort: true, Blames: BlameOwn, Severity: 24, Precedence: -1, Colour: "dark-red",
		Text:   "this host's port is not active: its pairs are paused, and no peer is judged",
		Begins: "the port is not active",
		Do:     "check the port: see its alert port-down",
	},
	{
		Verdict: VerdictOwnLink, OfPair: true, OfPort: true, Blames: BlameOwn, Severity: 23, Precedence: -1, Colour: "dark-red",
		Text: "most pairs of the port are bad at once: its own link is at fault (cable, transceiver or switch port)",
		Begins: "three quarters of the port's pairs blame the network at the same time; the port has at least four pairs, the bad pairs have at least " +
			"two hosts, and at least one bad pair is not `partial`; if the port has pairs within its group, at least one of them is bad",
		Do: "check the port's cable, transceiver and switch port. If most hosts of a group have this verdict at once, check their leaf switch",
	},
	{
		Verdict: VerdictPath, OfPair: true, Blames: BlameNetwork, Severity: 22, Precedence: 8, Unanswered: true, Blackhole: true, Colour: "red",
		Text: "echo and write silent{for}, the peer's process answers",
		Begins: "three probes are unanswered, the oldest for 250 ms, and the write is unanswered for 250 ms; over TCP, the peer's process confirms " +
			"that it still answers this pair and that its port is active",
		Do: "the network delivers nothing: check which other hosts report this peer (suspects), and check this host's port",
	},
	{
		Verdict: VerdictPartial, OfPair: true, Blames: BlameNetwork, Severity: 21, Precedence: 6, Blackhole: true, Colour: "orange",
		Text:   "{path} silent, other paths are not",
		Begins: "on one path, eight probes in a row, or the write for as many rounds, are unanswered although later probes on other paths are answered",
		Do: "check the uplinks and spines: some of the network's equal-cost paths are broken. The field path has the number of the silent path; " +
			"the write has the number after those of the probes",
	},
	{
		Verdict: VerdictLossyBoth, OfPair: true, Blames: BlameNetwork, Direction: "both", Severity: 20, Precedence: 5, Colour: "dark-orange",
		Text:   "probes lost in both directions{more}",
		Begins: "within a minute, at least three probes and 2 % of the probes are lost on the way to the peer, and at least as many echoes on the way back",
		Do:     "check cables, transceivers and congested queues that both directions share",
	},
	{
		Verdict: VerdictLossyReverse, OfPair: true, Blames: BlameNetwork, Direction: "reverse", Severity: 19, Precedence: 4, Colour: "light-orange",
		Text:   "echoes lost on the way back from the peer{more}",
		Begins: "within a minute, at least three echoes, for at least 2 % of the probes, are lost on the way back",
		Do:     "check cables, transceivers and congested queues in the direction in which the peer sends",
	},
	{
		Verdict: VerdictLossyForward, OfPair: true, Blames: BlameNetwork, Direction: "forward", Severity: 18, Precedence: 3, Colour: "semi-dark-orange",
		Text:   "probes lost on the way to the peer{more}",
		Begins: "within a minute, at least three probes and 2 % of the probes are lost on the way to the peer",
		Do:     "check cables, transceivers and congested queues in the direction in which the peer receives",
	},
	{
		Verdict: VerdictPeerPort, OfPair: true, Blames: BlamePeer, Severity: 17, Precedence: 9, Unanswered: true, Colour: "dark-yellow",
		Text:   "echo and write silent{for}, and the peer's process reports its port as {state}",
		Begins: "echo and write are silent as for `path`, and the peer's process reports that its port is not active",
		Do:     "check the peer: see its alert port-down",
	},
	{
		Verdict: VerdictPeerDown, OfPair: true, Blames: BlamePeer, Severity: 16, Precedence: 7, Unanswered: true, Colour: "yellow",
		Text:   "echo, write and the peer's process silent{for}",
		Begins: "echo and write are silent as for `path`, and the peer's process does not answer within 750 ms either",
		Do:     "check the peer: it is off or hangs, or both networks are cut",
	},
	{
		Verdict: VerdictPeerBusy, OfPair: true, Blames: BlamePeer, Severity: 4, Precedence: 2, Unanswered: true, Colour: "blue",
		Text:   "the peer's process does not echo{for}, its NIC acknowledges writes",
		Begins: "three probes are unanswered, the oldest for 2 s, and the peer's NIC acknowledges writes",
		Do:     "the network works: the peer's host is stopped or short of CPU time. This verdict never raises an alert",
	},
	{
		Verdict: VerdictStarting, OfPair: true, Blames: BlameNobody, Severity: 3, Precedence: 1, Colour: "light-blue",
		Text:   "connected; waiting for the first echo and the first write",
		Begins: "the pair is connected; the verdict lasts until an echo and a write are answered, at most 10 s",
		Do:     "wait",
	},
	{
		Verdict: VerdictOK, OfPair: true, OfPort: true, Blames: BlameNobody, Colour: "green",
		Text:   "echoes and writes are answered{more}",
		Begins: "echo and write are answered; after another verdict, for 5 s",
		Do:     "nothing",
	},
}

var reasonRows = []ReasonRow{
	{
		Reason: ReasonKey, Blames: BlameEither, Severity: 15, Colour: "red",
		Text: "the peer has another key, its certificate has expired or is of another authority or name, or another host has its address",
		Do: "give both hosts the same fabric.key_file and restart the plugin, or give them valid certificates of one authority; check the peer's " +
			"address in the list",
	},
	{
		Reason: ReasonNotListed, Blames: BlameEither, Severity: 14, Colour: "orange",
		Text: "the peer's list does not contain this host",
		Do:   "give all hosts the same fabric.peers_file, and compare this host's name in it with fabric.host",
	},
	{
		Reason: ReasonVersion, Blames: BlameEither, Severity: 13, Colour: "light-yellow",
		Text: "the versions of the two hosts are not compatible",
		Do:   "install the same version on both hosts",
	},
	{
		Reason: ReasonPKey, Blames: BlameEither, Severity: 12, Colour: "light-red",
		Text: "the P_Keys of the two ports differ, or neither port is a full member",
		Do:   "put both ports into one partition, at least one of them as a full member, or choose the partition with probe.pkey_index",
	},
	{
		Reason: ReasonNoCommonGID, Blames: BlameEither, Severity: 11, Colour: "blue",
		Text: "the two ports have no GIDs of the same kind",
		Do: "compare the addresses of both ports, which must be of one family, and probe.gid_index; the network's administrator assigns " +
			"addresses",
	},
	{
		Reason: ReasonFailed, Blames: BlameEither, Severity: 10, Colour: "dark-red",
		Text: "a device refuses to connect or to send, or the peer refuses the request",
		Do:   "find the failed call in the log at level debug; the plugin tries again within a minute",
	},
	{
		Reason: ReasonFull, Blames: BlamePeer, Severity: 9, Colour: "light-orange",
		Text: "the peer's port already answers as many pairs as it can",
		Do:   "give all hosts the same list, or lower fabric.peers on all hosts alike",
	},
	{
		Reason: ReasonNoResponder, Blames: BlamePeer, Severity: 8, Colour: "yellow",
		Text: "no plugin answers at the peer's address",
		Do:   "run the plugin on the peer with fabric.peers_file, allow its TCP port through firewalls, and check its address in the list",
	},
	{
		Reason: ReasonNotActive, Blames: BlamePeer, Severity: 7, Colour: "dark-yellow",
		Text: "the peer's port is not active",
		Do:   "check the peer: see its alert port-down",
	},
	{
		Reason: ReasonOwnPort, Blames: BlameOwn, Severity: 6, NotAboutPeer: true, Colour: "dark-yellow",
		Text: "this host's port is not active, or its worker is not running",
		Do:   "check this host's device: see its alerts",
	},
	{
		Reason: ReasonStarting, Blames: BlameNobody, Severity: 2, NotAboutPeer: true, Colour: "light-blue",
		Text: "the plugin has not tried to connect yet",
		Do:   "wait",
	},
	{
		Reason: ReasonUnsupported, Blames: BlameNobody, Severity: 1, Colour: "grey",
		Text: "the peer has no matching device, its device was removed, or its port has another link layer",
		Do: "if the pair was connected before, find out why the peer's device was removed; if it never was, do nothing if the " +
			"hosts differ on purpose, or limit fabric.devices to devices that all hosts have",
	},
}

// Verdicts returns one row for each verdict, the worst first.
func Verdicts() []Row { return append([]Row(nil), verdictRows...) }

// Reasons returns one row for each reason except ReasonNone, the worst first.
func Reasons() []ReasonRow { return append([]ReasonRow(nil), reasonRows...) }

// Row returns the row of a verdict. ok is false if this version does not know the verdict.
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

// Row returns the row of a reason. ok is false for ReasonNone and if this version does not know the reason.
func (r Reason) Row() (row ReasonRow, ok bool) {
	for i := range reasonRows {
		if reasonRows[i].Reason == r {
			return reasonRows[i], true
		}
	}
	return ReasonRow{Severity: -1}, false
}

// Details has values for the placeholders in the text of a verdict. Explain replaces a placeholder without a value by a general phrase, or
// removes it.
type Details struct {
	For   string // duration of the silence, such as " for 2.1s"
	State string // state of the peer's port, as reported by the peer's process
	Path  string // the silent path, such as "path 2"
	More  string // an addition, such as ", 17 so far"
}

// Explain returns the meaning of a verdict for one pair. It returns "" if this version does not know the verdict.
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

// Text returns the general meaning of a verdict.
func (v Verdict) Text() string { return v.Explain(Details{}) }

// Text returns the meaning of a reason. It returns the reason itself if this version does not know it.
func (r Reason) Text() string {
	if r == ReasonNone {
		return "connected"
	}
	if row, ok := r.Row(); ok {
		return row.Text
	}
	return string(r)
}

// Fix returns the advice for a reason, or "" if there is none.
func (r Reason) Fix() string {
	row, _ := r.Row()
	return row.Do
}
