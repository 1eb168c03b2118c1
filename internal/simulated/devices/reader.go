package devices

import (
	"context"
	"math"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// ReadEvents implements verbs.Device.
func (d *device) ReadEvents(runs []verbs.Run, wait time.Duration) (int, error) {
	n, err := d.readEvents(runs, wait)
	return n, opError("ibv_get_async_event", d.attr.Name, 0, err)
}

func (d *device) readEvents(runs []verbs.Run, wait time.Duration) (int, error) {
	if !d.gate.enter() {
		return 0, verbs.ErrClosed
	}
	defer d.gate.leave()
	until := d.deadline(wait)
	for len(runs) > 0 {
		n, err := d.readQueued(runs, d.gate.abandoned)
		if n > 0 || err != nil {
			return n, err
		}
		if d.w.clock() >= until {
			break
		}
		if !d.waitForEvent(until) {
			// Events that have already happened are still read.
			if n, err := d.readQueued(runs, d.gate.abandoned); n > 0 || err != nil {
				return n, err
			}
			return 0, verbs.ErrClosed
		}
	}
	return 0, nil
}

func (d *device) deadline(wait time.Duration) int64 {
	now := d.w.clock()
	if wait < 0 || int64(wait) > math.MaxInt64-now {
		return never
	}
	return now + int64(wait)
}

// waitForEvent waits until there may be something to read, or until a time. It returns
// false if the device closes.
func (d *device) waitForEvent(until int64) bool {
	var timeout <-chan time.Time
	until = min(until, d.nextDue())
	if d.w.waits != nil {
		return d.w.waits(until)
	}
	if until != never {
		timer := time.NewTimer(time.Duration(until - d.w.clock()))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-timeout:
	case <-d.eventQueued:
	case <-d.gate.closing:
		return false
	}
	return true
}

// nextDue returns the time at which the next entry of the timeline may provide an event
// for this reader.
func (d *device) nextDue() int64 {
	d.h.mu.Lock()
	defer d.h.mu.Unlock()
	if d.gone {
		return never
	}
	return d.h.nextDue()
}

// enqueue queues a run of events. It must be called with the hardware's lock held. It
// merges equal neighbours into one run, so that an unread storm takes no memory.
func (d *device) enqueue(p pending) {
	if n := len(d.queue); n > 0 && p.signal == 0 {
		if last := &d.queue[n-1]; last.signal == 0 && !last.read && last.typ == p.typ && last.port == p.port {
			last.count += p.count
			return
		}
	}
	d.queue = append(d.queue, p)
	d.eventQueued.Send()
}

// readRemaining reads the events that are queued when the device is closed, in a storm until ctx ends. It returns verbs.ErrStuck if
// ctx ends during an acknowledgement that hangs.
func (d *device) readRemaining(ctx context.Context) error {
	for runs := make([]verbs.Run, 16); ctx.Err() == nil; {
		switch n, err := d.readQueued(runs, ctx.Done()); {
		case err != nil:
			return verbs.ErrStuck
		case n == 0:
			return nil
		}
	}
	return nil
}

// readQueued reads and acknowledges queued events, as many as runs has space for. It returns verbs.ErrClosed if abandoned is closed
// during an acknowledgement that hangs.
func (d *device) readQueued(runs []verbs.Run, abandoned <-chan struct{}) (int, error) {
	n := 0
	for n < len(runs) {
		d.led.SetReaderCall(ledger.CallGetAsyncEvent, d.w.clock())
		p, ok := d.pop()
		if !ok {
			break
		}
		if p.signal != 0 {
			d.crash(p)
			continue
		}
		run, ok := d.acknowledgeRun(p, abandoned)
		if !ok {
			return 0, verbs.ErrClosed
		}
		runs[n] = run
		d.led.WriteRun(verbs.RunToRing(&run))
		n++
	}
	if n > 0 {
		d.led.Ring()
	}
	d.led.SetReaderCall(ledger.CallNone, d.w.clock())
	return n, nil
}

func (d *device) pop() (pending, bool) {
	d.h.mu.Lock()
	defer d.h.mu.Unlock()
	if !d.gone {
		d.h.advance(d.w.clock())
	}
	if len(d.queue) == 0 {
		d.queue = nil // releases the memory of a long queue
		return pending{}, false
	}
	p := d.queue[0]
	d.queue = d.queue[1:]
	return p, true
}

// acknowledgeRun counts a run as read, and as acknowledged after the end of a hang_ack. It
// returns false if abandoned is closed during the hang; the run then remains unacknowledged.
func (d *device) acknowledgeRun(p pending, abandoned <-chan struct{}) (verbs.Run, bool) {
	got := d.w.clock()
	if !p.read {
		d.led.Count(int32(p.typ), int32(p.port), p.count, 0)
	}
	d.led.SetReaderCall(ledger.CallAckAsyncEvent, got)
	var hung int64
	if f, end := d.h.fault(hangAck, 0, 0, got); f != nil {
		if !d.w.Sleep(end, abandoned) {
			return verbs.Run{}, false
		}
		hung = d.w.clock() - got
	}
	d.led.Count(int32(p.typ), int32(p.port), 0, p.count)
	run := verbs.Run{Type: p.typ, Port: p.port, Count: p.count, First: got, Last: got}
	run.AckSum, run.AckMax = drawAcks(d.random, ackMedian, p.count)
	// The time between the returns of get and ack is little longer than the call of ack.
	run.HoldSum, run.HoldMax = drawAcks(d.random, ackMedian/2, p.count)
	run.HoldSum, run.HoldMax = run.HoldSum+run.AckSum, run.HoldMax+run.AckMax
	for _, ns := range []*int64{&run.AckSum, &run.AckMax, &run.HoldSum, &run.HoldMax} {
		*ns += hung
	}
	return run, true
}

// crash ends the process during an acknowledgement: events with the same time count as
// read and remain unacknowledged.
func (d *device) crash(p pending) {
	d.h.mu.Lock()
	for i := range d.queue {
		next := &d.queue[i]
		if next.due != p.due || next.signal != 0 {
			break
		}
		d.led.Count(int32(next.typ), int32(next.port), next.count, 0)
		next.read = true
	}
	d.h.mu.Unlock()
	d.led.SetReaderCall(ledger.CallAckAsyncEvent, d.w.clock())
	d.w.die(p.signal)
}
