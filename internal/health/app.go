package health

import (
	"fmt"
	"strings"
	"time"

	"rdma_events/internal/measure"
	"rdma_events/internal/status"
	"rdma_events/internal/trace"
	"rdma_events/internal/verbs"
)

// app judges the events of an application. The plugin's own workers read each event to report it, and have alerts of their own.
func (k *Keeper) app(p *measure.AppAsync) {
	if p.App == status.WorkerComm {
		return
	}
	name := joined(" ", p.App, p.Unit)
	of := subject{device: p.Device, of: name}
	k.begins(&appErrors, of)
	k.grows(&appErrors, of, errorsOf(p), strings.ReplaceAll(name, "%", "%%")+" had error events, %d in all")
	if p.UnreadErrors > 0 {
		k.lasts(&appUnread, of, time.Time{}, fmt.Sprintf("%s does not read its error events, %d wait", name, p.UnreadErrors))
	}
}

func errorsOf(p *measure.AppAsync) uint64 {
	var n uint64
	for t, count := range p.Types {
		if trace.IsError(verbs.EventType(t)) {
			n += count
		}
	}
	return n
}

// begins has a counter begin at 0 that is not known yet. The series of an application begins with its first event, which may
// be the one that the rule is about.
func (k *Keeper) begins(r *rule, of subject) {
	if k.growths[ruled{r, of}] == nil {
		k.growths[ruled{r, of}] = &growth{seen: k.now}
	}
}

func (k *Keeper) hang(p *measure.AppHang) {
	if p.Threads == 0 || p.App == status.WorkerComm {
		return
	}
	object := p.Object.String()
	if p.Number > 0 {
		object += fmt.Sprintf(" %d", p.Number)
	}
	k.lasts(&appHangs, subject{device: p.Device, of: joined(" ", p.App, object)}, p.At.Add(-time.Duration(p.Age)),
		fmt.Sprintf("%s, pid %d, hangs in the destruction of %s: acknowledgements are missing, %d of them", p.App, p.PID, object, p.Missing))
}

// tracer judges the tracer. One that was never attached is a matter of the installation.
func (k *Keeper) tracer(p *measure.Tracer) {
	switch {
	case p.Attached:
		k.attached = k.now
	case !k.attached.IsZero() && k.now.Sub(k.attached) <= day:
		k.lasts(&tracerBlind, subject{}, time.Time{}, joined(": ", "the events of applications are not seen", string(p.Worker.Reason)))
	}
}
