//go:build linux && cgo

#include "native_lib.h"

// next_entry returns the number of the next entry, or -1 if the ring is full. The writer never waits for the host.
static int64_t next_entry(struct ring *r, uint64_t size)
{
	return r->written - __atomic_load_n(&r->taken, __ATOMIC_ACQUIRE) < size ? (int64_t)r->written : -1;
}

// count_omitted counts an omitted entry. The host reads the unlisted counts once after this count has changed, so the writer
// must raise the unlisted count first.
static void count_omitted(struct ring *r)
{
	add_count(&r->omitted, 1);
}

// publish_entry makes the written entry visible to the host, and reports whether exactly half of the ring is now in use.
static int publish_entry(struct ring *r, uint64_t size)
{
	add_count(&r->written, 1);
	return r->written - __atomic_load_n(&r->taken, __ATOMIC_ACQUIRE) == size / 2;
}

static void ring_doorbell(const struct device *d)
{
	if (d->doorbell >= 0)
		wake_up(d->doorbell);
}

void publish_runs(struct device *d, const struct run *runs, int n)
{
	struct run_ring *to = &d->led->runs;
	int i;

	for (i = 0; i < n; i++) {
		int64_t at = next_entry(&to->ring, RUN_RING);

		if (at < 0) {
			add_count(&event_slot(d->led, runs[i].type, runs[i].port)->unlisted, runs[i].count);
			count_omitted(&to->ring);
			continue;
		}
		to->entry[at % RUN_RING] = runs[i];
		publish_entry(&to->ring, RUN_RING);
	}
	ring_doorbell(d);
}

void publish_round(struct probe *p, const struct round *r)
{
	int64_t at = next_entry(&p->ring->ring, ROUND_RING);
	int half;

	if (at < 0) {
		count_omitted(&p->ring->ring);
		return;
	}
	p->ring->entry[at % ROUND_RING] = *r;
	half = publish_entry(&p->ring->ring, ROUND_RING);
	if (half || r->outcome != O_SUCCESS)
		ring_doorbell(p->d);
}
