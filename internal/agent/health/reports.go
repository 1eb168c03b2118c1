package health

import (
	"time"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/telemetry/measure"
)

// repeatProblems is the time after which a lasting problem is reported again. It is a little less than a minute, so that
// an interval that ends early does not skip a report.
const repeatProblems = 59 * time.Second

// Reports turns the problems of a host into points: one when a problem begins, one each minute while it lasts,
// and one when it has ended. It is not safe for concurrent use.
type Reports struct {
	firstSteps map[string]string               // by the ID of the alert
	open       map[measure.Key]measure.Problem // last reports of problems that have not ended
}

// NewReports returns Reports of a host of which nothing has been reported.
func NewReports() *Reports {
	r := &Reports{firstSteps: map[string]string{}, open: map[measure.Key]measure.Problem{}}
	for _, a := range alerts.Table() {
		if len(a.FirstSteps) > 0 {
			r.firstSteps[a.ID] = a.FirstSteps[0]
		}
	}
	return r
}

// Points returns the points to emit, given all problems that exist at now. Of several problems with equal tags, the
// oldest is reported.
func (r *Reports) Points(problems []Problem, now time.Time) []measure.Point {
	current := map[measure.Key]Problem{}
	var order []measure.Key
	for _, p := range problems {
		key := r.newPoint(p, now).Key()
		known, exists := current[key]
		if !exists {
			order = append(order, key)
		}
		if !exists || p.Since.Before(known.Since) {
			current[key] = p
		}
	}
	var points []measure.Point
	for key, p := range r.open {
		if _, lasts := current[key]; !lasts {
			delete(r.open, key)
			p.Active, p.At = false, now
			points = append(points, &p)
		}
	}
	for _, key := range order {
		if last, open := r.open[key]; !open || now.Sub(last.At) >= repeatProblems {
			p := r.newPoint(current[key], now)
			r.open[key] = *p
			points = append(points, p)
		}
	}
	return points
}

func (r *Reports) newPoint(p Problem, now time.Time) *measure.Problem {
	return &measure.Problem{
		Alert: p.ID, Severity: string(p.Severity), Device: p.Device, Port: p.Port, Of: p.Of, Active: true,
		Since: p.Since, Text: p.Text, FirstStep: r.firstSteps[p.ID], At: now,
	}
}
