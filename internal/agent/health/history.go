package health

import (
	"slices"
	"time"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/telemetry/measure"
)

// settleTime is the time after a start within which a device that can be opened has been opened.
const settleTime = 2 * time.Minute

// AlertHistory is what a Keeper knows of the past of an alert about one series. The plugin that runs next on the host continues
// with it: a restart of the plugin is not the beginning of a problem, and ends none.
type AlertHistory struct {
	Alert  string      `json:"alert"` // its ID
	Series measure.Key `json:"series"`
	// HeldSince is when the condition was first found to hold, and Began when it began to hold; both are zero if it does not hold.
	HeldSince time.Time `json:"held_since,omitzero"`
	Began     time.Time `json:"began,omitzero"`
	// Growths holds for each counter of the condition when it last grew. Those of counters about the plugin itself are left out: they
	// count what one process did.
	Growths [][]time.Time `json:"growths,omitempty"`
}

// History returns what the Keeper knows of the past of alerts at its last judgement, for Restore. A healthy host has none.
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

// Restore makes a new Keeper continue with the History of the plugin that ran before on this host. A condition that held then and
// holds when it is first evaluated has held all the time.
func (k *Keeper) Restore(all []AlertHistory, now time.Time) {
	k.judge.settled = now.Add(settleTime)
	for _, h := range all {
		a := k.judge.findAlert(h.Alert, h.Series.Measurement)
		if a == nil {
			continue // an alert of another version
		}
		s := &alertState{lastSeen: now, restored: !h.HeldSince.IsZero()}
		if s.restored {
			s.heldSince, s.began = earlierTime(h.HeldSince, now), earlierTime(h.Began, now) // the clock may have been set back
		}
		for _, times := range h.Growths {
			c := counter{}
			for _, t := range times {
				c.growths = append(c.growths, earlierTime(t, now))
			}
			s.counters = append(s.counters, c)
		}
		k.judge.states[alertKey{a, h.Series}] = s
	}
}

// findAlert returns an alert about series of a measurement, or about several series of which one is of that measurement, or nil.
func (j *judge) findAlert(id, measurement string) *alerts.Alert {
	for _, a := range slices.Concat(j.byMeasurement[measurement], j.byMeasurement[""]) {
		if a.ID == id {
			return a
		}
	}
	return nil
}

func earlierTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
