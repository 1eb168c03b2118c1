package health

import (
	"slices"
	"time"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/telemetry/measure"
)

// settleTime is the time after a start by which the plugin has opened all devices that it can open.
const settleTime = 2 * time.Minute

// AlertHistory is the past of an alert about one series. It is passed on to the next plugin on the host, so that a restart of the plugin
// neither begins nor ends a problem.
type AlertHistory struct {
	Alert  string      `json:"alert"` // its ID
	Series measure.Key `json:"series"`
	// HeldSince is when the condition was first found to hold, and Began when it began to hold; both are zero if it does not hold.
	HeldSince time.Time `json:"held_since,omitzero"`
	Began     time.Time `json:"began,omitzero"`
	// Growths holds the times of the last growths of each counter in the condition. Counters about the plugin itself are left out, because
	// each process counts for itself.
	Growths [][]time.Time `json:"growths,omitempty"`
}

// History returns the past of all alerts as of the last judgement, for Restore. A healthy host has none.
func (k *Keeper) History() []AlertHistory {
	var all []AlertHistory
	for at, s := range k.judge.states {
		h := AlertHistory{Alert: at.alert.ID, Series: at.series}
		if !s.heldSince.IsZero() {
			h.HeldSince, h.Began = k.judge.clockTime(s.heldSince), k.judge.clockTime(s.began)
		}
		grown := false
		for i := range s.counters {
			var times []time.Time
			for _, t := range s.counters[i].growths {
				if at.series.Device != "" && k.now.Sub(t) <= lookBack(at.alert.When) {
					times = append(times, k.judge.clockTime(t))
				}
			}
			grown = grown || len(times) > 0
			h.Growths = append(h.Growths, times)
		}
		if !grown {
			h.Growths = nil
		}
		if grown || !h.HeldSince.IsZero() {
			all = append(all, h)
		}
	}
	return all
}

// Restore makes a new Keeper continue with the History of the previous plugin on this host. If a condition held then and holds when it is
// first evaluated, the Keeper assumes that it held in between.
func (k *Keeper) Restore(all []AlertHistory, now time.Time) {
	k.judge.restoredUntil = now.Add(settleTime)
	for _, h := range all {
		a := k.judge.findAlert(h.Alert, h.Series.Measurement)
		if a == nil {
			continue // an alert of another version
		}
		s := &alertState{lastSeen: now, restored: !h.HeldSince.IsZero()}
		if s.restored {
			s.heldSince, s.began = pastTime(h.HeldSince, now), pastTime(h.Began, now)
		}
		for _, times := range h.Growths {
			c := counter{}
			for _, t := range times {
				c.growths = append(c.growths, pastTime(t, now))
			}
			s.counters = append(s.counters, c)
		}
		k.judge.states[alertKey{a, h.Series}] = s
	}
}

// findAlert returns the alert with this ID that is about one series of a measurement or about several series, or nil.
func (j *judge) findAlert(id, measurement string) *alerts.Alert {
	for _, a := range slices.Concat(j.byMeasurement[measurement], j.byMeasurement[""]) {
		if a.ID == id {
			return a
		}
	}
	return nil
}

// pastTime returns t with a monotonic reading, or now if t is later because the clock was set back.
func pastTime(t, now time.Time) time.Time { return now.Add(min(0, t.Sub(now))) }
