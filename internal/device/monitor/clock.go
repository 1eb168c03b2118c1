package monitor

import (
	"sync"
	"time"
)

// setBackLimit is the backward step of the wall clock, in ns, above which time stamps follow
// the clock. After a smaller step, the points of a series are 1 ns apart until the clock has
// caught up.
const setBackLimit = int64(time.Second)

// pauseLimit is the time between two readings of the clock above which the host counts as
// paused: the virtual machine or this process was stopped. Each worker sends a batch every second.
const pauseLimit = 3 * int64(time.Second)

// moment is the time at which a batch or a call is handled.
type moment struct {
	mono, boot int64  // CLOCK_MONOTONIC and CLOCK_BOOTTIME, ns
	resumed    int64  // when the host ran again after its last pause, CLOCK_MONOTONIC ns; 0: never
	offset     int64  // wall clock minus CLOCK_MONOTONIC, ns
	epoch      uint64 // grows when the wall clock is set back
}

// withoutPause returns the duration ns of a call that has lasted until now, without the time before the host's last resumption.
func (t *moment) withoutPause(ns int64) int64 { return min(ns, t.mono-t.resumed) }

// wall returns the wall time of a CLOCK_MONOTONIC stamp.
func (t *moment) wall(mono int64) int64 { return mono + t.offset }

// bootAt returns the CLOCK_BOOTTIME of a CLOCK_MONOTONIC stamp.
func (t *moment) bootAt(mono int64) int64 { return mono + t.boot - t.mono }

// clock relates the wall clock to CLOCK_MONOTONIC. All devices share one clock. It uses no
// reading of a worker.
type clock struct {
	now       func() (wall, mono, boot int64)
	onSetBack func(by time.Duration) // called when the wall clock was set back

	mu      sync.Mutex
	set     bool
	mono    int64 // of the newest pair
	offset  int64
	highest int64 // highest offset in this epoch
	epoch   uint64
	last    int64 // the last reading of CLOCK_MONOTONIC
	resumed int64 // the first reading after the last pause
}

// read returns the present moment. If the wall clock seems to have been set back, it reads the
// clocks again: more likely the process was preempted between the readings of the two clocks.
func (c *clock) read() moment {
	wall, mono, boot := c.now()
	if c.isSetBack(wall, mono) {
		wall, mono, boot = c.now()
	}
	c.mu.Lock()
	by := c.storePair(wall, mono)
	if c.last > 0 && mono-c.last > pauseLimit {
		c.resumed = mono
	}
	c.last = max(c.last, mono)
	t := moment{mono: mono, boot: boot, resumed: c.resumed, offset: c.offset, epoch: c.epoch}
	c.mu.Unlock()
	if by > 0 {
		c.onSetBack(time.Duration(by))
	}
	return t
}

// isSetBack reports whether a pair of readings shows that the wall clock was set back.
func (c *clock) isSetBack(wall, mono int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set && mono > c.mono && c.highest-(wall-mono) > setBackLimit
}

// storePair stores a pair of readings if it is the newest. It returns by how many ns the wall
// clock was set back, 0 if it was not. The caller holds c.mu.
func (c *clock) storePair(wall, mono int64) int64 {
	if c.set && mono <= c.mono {
		return 0
	}
	offset := wall - mono
	by := c.highest - offset
	if c.set && by > setBackLimit {
		c.epoch++
	} else {
		by = 0
	}
	if by > 0 || !c.set {
		c.highest = offset
	}
	c.highest = max(c.highest, offset)
	c.set, c.mono, c.offset = true, mono, offset
	return by
}

// stamp makes the time stamps of one series strictly increasing.
type stamp struct {
	last  int64
	epoch uint64
}

// next returns wall as the time stamp of the next point, moved forward if it is not later than
// the last one of the same epoch. A wall time of an earlier epoch was read before the clock was
// set back, and is ahead of the points since then.
func (s *stamp) next(wall int64, epoch uint64) time.Time {
	switch {
	case epoch < s.epoch:
		wall = s.last + 1
	case epoch == s.epoch:
		wall = max(wall, s.last+1)
	}
	s.last, s.epoch = wall, max(s.epoch, epoch)
	return unixNano(wall)
}

func unixNano(wall int64) time.Time { return time.Unix(0, wall) }
