package monitor

import (
	"sync"
	"time"
)

// setBack is by how much the wall clock must jump back to be followed. Below
// it, points of a series go on 1 ns apart until the clock has caught up.
const setBack = int64(time.Second)

// moment is a time at which something is handled.
type moment struct {
	mono, boot int64  // CLOCK_MONOTONIC and CLOCK_BOOTTIME, ns
	offset     int64  // of the wall clock from CLOCK_MONOTONIC, ns
	epoch      uint64 // grows when the wall clock is set back
}

// wall returns the wall time of a CLOCK_MONOTONIC stamp.
func (t *moment) wall(mono int64) int64 { return mono + t.offset }

// bootAt returns the CLOCK_BOOTTIME of a CLOCK_MONOTONIC stamp.
func (t *moment) bootAt(mono int64) int64 { return mono + t.boot - t.mono }

// clock relates the wall clock to CLOCK_MONOTONIC. One serves all devices, so
// that what was stamped before the wall clock was set back and is handled
// afterwards does not look like a jump ahead.
type clock struct {
	now  func() (wall, mono, boot int64)
	back func(by time.Duration) // told when the wall clock was set back

	mu      sync.Mutex
	set     bool
	mono    int64 // of the newest pair
	offset  int64
	highest int64 // offset in this epoch
	epoch   uint64
}

// read returns the present moment.
func (c *clock) read() moment {
	wall, mono, boot := c.pair()
	return c.observe(wall, mono, mono, boot)
}

// pair reads the clocks. Where the wall clock looks set back it reads them again: more
// likely the process was preempted between the two.
func (c *clock) pair() (wall, mono, boot int64) {
	wall, mono, boot = c.now()
	if c.isBack(wall, mono) {
		wall, mono, boot = c.now()
	}
	return wall, mono, boot
}

// isBack reports whether the wall clock was set back by a pair.
func (c *clock) isBack(wall, mono int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set && mono > c.mono && c.highest-(wall-mono) > setBack
}

// batch returns the moment at which a batch is handled that was stamped with
// wall and mono.
func (c *clock) batch(wall, mono int64) moment {
	nowWall, nowMono, boot := c.pair()
	if mono > nowMono || c.isBack(wall, mono) {
		// No worker is ahead of the host; this one is out of its mind. And what one says
		// of a clock that was set back the host knows itself: it may have been preempted.
		wall, mono = nowWall, nowMono
	}
	return c.observe(wall, mono, nowMono, boot)
}

func (c *clock) observe(wall, mono, nowMono, boot int64) moment {
	c.mu.Lock()
	by := c.take(wall, mono)
	t := moment{mono: nowMono, boot: boot, offset: c.offset, epoch: c.epoch}
	c.mu.Unlock()
	if by > 0 {
		c.back(time.Duration(by))
	}
	return t
}

// take keeps the newest pair and returns by how much the wall clock was set
// back, 0 if it was not.
func (c *clock) take(wall, mono int64) int64 {
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
