package portstate

import "rdma_events/internal/verbs"

// linkDowns compares the driver's link_downed with the down transitions that
// were seen. The counter has any value at the first look, may be absent, and
// may be reset; then the comparison starts anew and what was missed stays.
//
// The counter runs ahead while an event is still on its way, so what it is
// ahead is believed only when it is still unexplained Patience later. Each
// down transition in between explains one.
type linkDowns struct {
	set    bool
	base   uint64 // link_downed where the comparison began
	last   uint64 // link_downed at the last look
	downs  uint64 // down transitions where the comparison began
	known  uint64 // of missed, what belongs to this comparison
	missed uint64
	doubt  struct {
		ahead uint64
		at    int64
	}
}

func (l *linkDowns) forget() {
	l.set, l.doubt.ahead = false, 0
}

func (l *linkDowns) explain() {
	if l.doubt.ahead > 0 {
		l.doubt.ahead--
	}
}

func (l *linkDowns) look(mono int64, a *verbs.PortAttr, downs uint64) {
	if !a.HasLinkDowned {
		return
	}
	if !l.set || a.LinkDowned < l.last {
		l.set, l.base, l.downs, l.known, l.doubt.ahead = true, a.LinkDowned, downs, 0, 0
	}
	l.last = a.LinkDowned
	counted, explained := l.last-l.base, downs-l.downs+l.known
	if counted <= explained {
		l.doubt.ahead = 0
		return
	}
	l.judge(mono, counted-explained)
}

func (l *linkDowns) judge(mono int64, ahead uint64) {
	d := &l.doubt
	if d.ahead == 0 {
		d.ahead, d.at = ahead, mono
		return
	}
	d.ahead = min(d.ahead, ahead)
	if mono-d.at < int64(Patience) {
		return
	}
	l.known += d.ahead
	l.missed += d.ahead
	d.ahead, d.at = ahead-d.ahead, mono
}
