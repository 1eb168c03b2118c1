//go:build linux && cgo

#include "native_lib.h"

// next returns the number of the next entry, or -1 if the ring is full: the writer does not wait for the host.
static int64_t next(struct ring *r, uint64_t size)
{
	return r->written - __atomic_load_n(&r->taken, __ATOMIC_ACQUIRE) < size ? (int64_t)r->written : -1;
}

// leave_out tells the host that an entry was left out. The host then looks at the counts of what was left out, once, so that
// these are raised before.
static void leave_out(struct ring *r)
{
	add(&r->left, 1);
}

// publish makes the written entry visible to the host, and reports whether it is the one that fills half of the ring.
static int publish(struct ring *r, uint64_t size)
{
	add(&r->written, 1);
	return r->written - __atomic_load_n(&r->taken, __ATOMIC_ACQUIRE) == size / 2;
}

static void ring_doorbell(const struct device *d)
{
	if (d->doorbell >= 0)
		wake_up(d->doorbell);
}

void list_runs(struct device *d, const struct run *runs, int n)
{
	struct run_ring *to = &d->led->runs;
	int i;

	for (i = 0; i < n; i++) {
		int64_t at = next(&to->ring, RUN_RING);

		if (at < 0) {
			add(&event_slot(d->led, runs[i].type, runs[i].port)->unlisted, runs[i].count);
			leave_out(&to->ring);
			continue;
		}
		to->entry[at % RUN_RING] = runs[i];
		publish(&to->ring, RUN_RING);
	}
	ring_doorbell(d);
}

void list_round(struct probe *p, const struct round *r)
{
	int64_t at = next(&p->ring->ring, ROUND_RING);
	int half;

	if (at < 0) {
		leave_out(&p->ring->ring);
		return;
	}
	p->ring->entry[at % ROUND_RING] = *r;
	half = publish(&p->ring->ring, ROUND_RING);
	if (half || r->outcome != O_SUCCESS)
		ring_doorbell(p->d);
}
