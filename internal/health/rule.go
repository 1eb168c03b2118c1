package health

import "time"

const (
	quarter  = 15 * time.Minute
	halfHour = 30 * time.Minute
	day      = 24 * time.Hour
)

// rule is an alert rule, as far as a process can judge it. Its texts and what to do are those of the rule of the same
// id in assets/gen.
type rule struct {
	id       string
	severity Severity
	hold     time.Duration // how long a state, or that a counter has grown, must last
	count    int           // how often a counter must have grown
	window   time.Duration // within
	named    bool          // a problem names its application: several of one device differ in nothing else
}

// The rules.
var (
	portDown        = rule{id: "port-down", severity: Critical, hold: time.Minute}
	portFlapping    = rule{id: "port-flapping", severity: Warning, count: 3, window: halfHour}
	linkSlow        = rule{id: "link-slow", severity: Warning, hold: 5 * time.Minute}
	linkDisagrees   = rule{id: "link-disagrees", severity: Warning, count: 1, window: halfHour}
	gidMoved        = rule{id: "gid-moved", severity: Warning, count: 1, window: halfHour}
	deviceMissing   = rule{id: "device-missing", severity: Critical, hold: time.Minute}
	deviceFatal     = rule{id: "device-fatal", severity: Critical, count: 1, window: halfHour}
	unackedEvents   = rule{id: "unacked-events", severity: Warning, hold: 3 * time.Minute}
	releasedEvents  = rule{id: "unacked-events", severity: Warning, hold: 3 * time.Minute, count: 1, window: halfHour}
	commandStuck    = rule{id: "command-stuck", severity: Critical, hold: 30 * time.Second}
	commandSlow     = rule{id: "command-slow", severity: Warning, hold: 10 * time.Minute}
	probeErrors     = rule{id: "probe-errors", severity: Warning, count: 3, window: quarter}
	lostEvents      = rule{id: "lost-events", severity: Warning, count: 3, window: quarter}
	lostCompletions = rule{id: "lost-completions", severity: Critical, count: 3, window: quarter}
	appErrors       = rule{id: "app-errors", severity: Warning, count: 1, window: halfHour, named: true}
	appUnread       = rule{id: "app-errors-unread", severity: Warning, hold: 2 * time.Minute, named: true}
	appHangs        = rule{id: "app-destroy-hangs", severity: Warning, named: true}
	tracerBlind     = rule{id: "tracer-blind", severity: Warning, hold: 10 * time.Minute}
	fabricOwnLink   = rule{id: "fabric-own-link", severity: Critical, hold: time.Minute}
	fabricPair      = rule{id: "fabric-pair", severity: Warning, hold: 5 * time.Minute}
	workerDown      = rule{id: "worker-down", severity: Warning, hold: 2 * time.Minute}
	workerRestarts  = rule{id: "worker-restarts", severity: Warning, count: 3, window: halfHour}
	pluginLate      = rule{id: "plugin-late", severity: Warning, count: 3, window: halfHour}
	recorderFailing = rule{id: "recorder-failing", severity: Warning, count: 1, window: halfHour}
)

// subject is what a rule is about.
type subject struct {
	device string
	port   int
	of     string // which of several series of a port or a device; "": there is one
}

// condition is a state that lasts.
type condition struct {
	began time.Time
	seen  bool // in the interval that is judged now
}

// growth holds the moments at which a counter grew.
type growth struct {
	total uint64
	times []time.Time // the last ones, at most rule.count
	seen  time.Time
	last  time.Time // of port-flapping: when the port came back
}

// add adds a reading of the counter. As for the alert rules, the first one is no growth, and a counter that begins again
// begins at 0.
func (g *growth) add(r *rule, total uint64, now time.Time) {
	switch {
	case g.seen.IsZero():
		g.total = total
	case total < g.total:
		g.total = 0
	}
	for range min(total-g.total, uint64(r.count)) {
		g.times = append(g.times, now)
	}
	g.times = g.times[max(0, len(g.times)-r.count):]
	g.total, g.seen = total, now
}

// since returns when the counter had grown often enough for the rule, and whether that is within its window.
func (g *growth) since(r *rule, now time.Time) (time.Time, bool) {
	if len(g.times) < r.count || now.Sub(g.times[0]) > r.window {
		return time.Time{}, false
	}
	return g.times[len(g.times)-1], true
}
