package monitor

import (
	"sync"
	"time"
)

// setBack is the backward step of the wall clock, in ns, above which time stamps follow
// it. After a smaller step, the points of a series are 1 ns apart until the clock has
// caught up.
const setBack = int64(time.Second)

// paused is the time without a reading of the clock above which the host counts as paused: a
// guest that was stopped, or a process. Each worker sends a batch every second.
const paused = 3 * int64(time.Second)

// moment is the time at which a batch or a call is handled.
type moment struct {
	mono, boot int64  // CLOCK_MONOTONIC and CLOCK_BOOTTIME, ns
	resumed    int64  // when the host ran again after its last pause, CLOCK_MONOTONIC ns; 0: never
	offset     int64  // wall clock minus CLOCK_MONOTONIC, ns
	epoch      uint64 // grows when the wall clock is set back
}

// lasted returns how much of ns that a call has lasted until now the host has run for.
func (t *moment) lasted(ns int64) int64 { return min(ns, t.mono-t.resumed) }

// wall returns the wall time of a CLOCK_MONOTONIC stamp.
func (t *moment) wall(mono int64) int64 { return mono + t.offset }

// bootAt returns the CLOCK_BOOTTIME of a CLOCK_MONOTONIC stamp.
func (t *moment) bootAt(mono int64) int64 { return mono + t.boot - t.mono }

// clock relates the wall clock to CLOCK_MONOTONIC. All devices share one clock, and no
// worker's readings go into it.
type clock struct {
	now  func() (wall, mono, boot int64)
	back func(by time.Duration) // called when the wall clock was set back

	mu      sync.Mutex
	set     bool
	mono    int64 // of the newest pair
	offset  int64
	highest int64 // highest offset in this epoch
	epoch   uint64
	last    int64 // the last reading of CLOCK_MONOTONIC
	resumed int64 // the one that ended the last pause
}

// read returns the present moment. If the wall clock seems to be set back, it reads the clocks
// again: more likely the process was preempted between the two readings.
func (c *clock) read() moment {
	wall, mono, boot := c.now()
	if c.isBack(wall, mono) {
		wall, mono, boot = c.now()
	}
	c.mu.Lock()
	by := c.store(wall, mono)
	if c.last > 0 && mono-c.last > paused {
		c.resumed = mono
	}
	c.last = max(c.last, mono)
	t := moment{mono: mono, boot: boot, resumed: c.resumed, offset: c.offset, epoch: c.epoch}
	c.mu.Unlock()
	if by > 0 {
		c.back(time.Duration(by))
	}
	return t
}

// isBack reports whether a pair shows that the wall clock was set back.
func (c *clock) isBack(wall, mono int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set && mono > c.mono && c.highest-(wall-mono) > setBack
}

// store keeps the pair of the two clocks if it is the newest one. It returns by how many ns the
// wall clock was set back, 0 if it was not. The caller holds c.mu.
func (c *clock) store(wall, mono int64) int64 {
	if c.set && mono <= c.mono {
		return 0
	}
	offset := wall - mono
	by := c.highest - offset
	if c.set && by > setBack {
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

// stamp makes the time stamps of one series rise strictly.
type stamp struct {
	last  int64
	epoch uint64
}

func (s *stamp) next(wall int64, epoch uint64) time.Time {
	if epoch <= s.epoch {
		wall = max(wall, s.last+1)
	}
	s.last, s.epoch = wall, max(s.epoch, epoch)
	return unixNano(wall)
}

func unixNano(wall int64) time.Time { return time.Unix(0, wall) }
