//go:build linux && cgo

#define _GNU_SOURCE
#include <endian.h>
#include <poll.h>

#include "native_fabric.h"

struct fabric_item *add_item(struct sink *s, int kind, int pair, const struct pair *p, int64_t at)
{
	struct fabric_item *i = &s->out[s->n++];

	*i = (struct fabric_item){ .kind = kind, .pair = pair, .session = p ? p->peer.session : 0, .at = at };
	return i;
}

// has_room reports whether n more items fit.
static int has_room(const struct sink *s, int n)
{
	return s->n + n <= s->cap;
}

// send_probe sends the next probe of a pair. If the device refuses it, the next probe gets the same number.
static void send_probe(struct fabric *f, int i, struct pair *p, struct sink *s)
{
	uint32_t seq = p->seq + 1;
	int path = p->seq % p->peer.paths;
	struct datagram_wire m = { .type = T_PROBE, .seq = htobe32(seq) };
	int64_t t = now();
	int err = post_datagram_to(f, p, path, &m);
	struct fabric_item *out = add_item(s, err ? FK_UNSENT : FK_PROBE, i, p, t);

	out->path = path;
	out->seq = seq;
	if (err) {
		out->status = -failed(C_POST_SEND, err).err;
		return;
	}
	p->seq = seq;
	p->sent[seq % 256].seq = seq;
	p->sent[seq % 256].at = t;
	add_count(&p->led->sent, 1);
	if (!p->missing_at) {
		p->missing_at = t + f->c.missing_ns;
		p->awaited = seq;
	}
}

void fail_write(int i, struct pair *p, int64_t t, int status, struct sink *s)
{
	struct fabric_item *out = add_item(s, FK_WRITE_FAILED, i, p, t);

	out->status = status;
	out->took = t - p->write_at;
	p->write_at = 0;
	p->write_failed = 1;
	s->urgent = 1;
	add_count(&p->led->write_errors, 1);
}

// send_write posts a zero-length write. Its key and address are zeros: a responder must not check them for a zero-length
// write (InfiniBand specification, C9-88). A write that the device refuses counts as posted and failed.
static void send_write(struct fabric *f, int i, struct pair *p, struct sink *s)
{
	struct ibv_send_wr wr = { .wr_id = work_id(WR_WRITE, i, p->generation),
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	int err;

	p->write_at = now();
	err = FABRIC_CALL(f, C_POST_SEND, ibv_post_send(p->rc, &wr, &bad));
	add_item(s, FK_WRITE, i, p, p->write_at);
	add_count(&p->led->writes, 1);
	if (err)
		fail_write(i, p, p->write_at, -failed(C_POST_SEND, err).err, s);
}

// handle_missing reports that the awaited echo has not come in time. If the write is silent, too, it requests further probes.
// A peer whose device acknowledges the write is merely busy, and gets no further probes. The rule and its times are those of
// verdict.EchoWatch.
static void handle_missing(const struct fabric *f, int i, struct pair *p, int64_t t, struct sink *s)
{
	p->missing_at = 0;
	if (!p->reported) {
		add_item(s, FK_MISSING, i, p, t);
		s->urgent = 1;
		p->reported = 1;
	}
	if (!p->more_requested &&
	    (p->write_failed || (p->write_at && t - p->write_at >= f->c.write_silent_ns))) {
		p->more_requested = 1;
		p->more = f->c.more_probes;
		p->next_more = t;
	}
}

// step_pair does what is due for a pair. It adds at most four items.
static void step_pair(struct fabric *f, int i, struct pair *p, int64_t t, int all_taken, struct sink *s)
{
	if (all_taken && p->missing_at && t >= p->missing_at)
		handle_missing(f, i, p, t, s);
	if (t >= p->next) {
		int64_t interval = f->c.interval_ns;

		send_probe(f, i, p, s);
		if (!p->write_at && !p->write_failed)
			send_write(f, i, p, s);
		p->next += interval + (t - p->next) / interval * interval;
	} else if (p->more && t >= p->next_more) {
		p->more--;
		send_probe(f, i, p, s);
		p->next_more = now() + f->c.more_ns;
	}
}

// next_due returns when the next step of any pair is due, at most until.
static int64_t next_due(const struct fabric *f, int64_t until)
{
	int i;

	for (i = 0; i < FABRIC_PAIRS; i++) {
		const struct pair *p = f->pair[i];

		if (!p || p->peer.role != FR_PROBES)
			continue;
		if (p->next < until)
			until = p->next;
		if (p->missing_at && p->missing_at < until)
			until = p->missing_at;
		if (p->more && p->next_more < until)
			until = p->next_more;
	}
	return until;
}

// handle_late reports that the thread woke too late, and gives all pairs their full time for an echo again.
static void handle_late(struct fabric *f, int64_t t, struct sink *s)
{
	int64_t late = f->expected ? t - f->expected : 0;
	int i;

	if (late <= f->c.late_ns)
		return;
	for (i = 0; i < FABRIC_PAIRS; i++)
		if (f->pair[i] && f->pair[i]->missing_at)
			f->pair[i]->missing_at = t + f->c.missing_ns;
	add_item(s, FK_LATE, -1, NULL, t)->took = late;
	s->urgent = 1;
}

// run_once handles all completions, and then does what is due. It returns the result of drain_completions. While completions
// remain, no echo counts as missing.
static int run_once(struct fabric *f, struct sink *s)
{
	int more = has_failed(f) ? -1 : drain_completions(f, s), i;
	int64_t t = more ? now() : f->up_to;

	if (more < 0)
		return more;
	if (!more)
		handle_late(f, t, s);
	for (i = 0; i < FABRIC_PAIRS && has_room(s, 4); i++)
		if (f->pair[i] && f->pair[i]->peer.role == FR_PROBES)
			step_pair(f, i, f->pair[i], t, !more, s);
	f->expected = next_due(f, t + SECOND_NS);
	return more;
}

// wait_fabric waits for an event or a nudge, or until the time until. It returns an errno: ECANCELED if the device is being
// closed, EINTR after a nudge.
static int wait_fabric(struct fabric *f, int64_t until)
{
	struct pollfd fds[3] = { { .fd = f->channel->fd, .events = POLLIN },
				 { .fd = f->nudge, .events = POLLIN },
				 { .fd = f->d->wake, .events = POLLIN } };
	int64_t left = until - now();
	struct timespec t = { 0 };

	if (left > 0)
		t = (struct timespec){ .tv_sec = left / SECOND_NS, .tv_nsec = left % SECOND_NS };
	if (ppoll(fds, 3, &t, NULL) < 0)
		return errno == EINTR ? 0 : errno;
	if (fds[2].revents)
		return ECANCELED;
	if (fds[0].revents & ~POLLIN)
		return EIO;
	if (!fds[1].revents)
		return 0;
	clear_eventfd(f->nudge);
	return EINTR;
}

int native_fabric_run(struct fabric *f, int64_t for_ns, struct fabric_item *out, int cap,
		      struct fabric_end *end)
{
	struct sink s = { .out = out, .cap = cap };
	int64_t until = now() + for_ns;
	int err = 0, more;

	while (!err) {
		pthread_mutex_lock(&f->lock);
		more = run_once(f, &s);
		pthread_mutex_unlock(&f->lock);
		if (more < 0 || s.urgent || now() >= until || !has_room(&s, FABRIC_ROOM))
			break;
		err = wait_fabric(f, more ? 0 : f->expected < until ? f->expected : until);
	}
	pthread_mutex_lock(&f->lock);
	if (err && err != ECANCELED && err != EINTR)
		f->end.failed = failed(C_GET_CQ_EVENT, err);
	*end = f->end;
	pthread_mutex_unlock(&f->lock);
	end->up_to = f->up_to;
	return s.n;
}
