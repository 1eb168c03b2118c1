//go:build linux && cgo

#define _GNU_SOURCE
#include <endian.h>
#include <poll.h>

#include "native_fabric.h"

struct fabric_item *item(struct sink *s, int kind, int pair, const struct pair *p, int64_t at)
{
	struct fabric_item *i = &s->out[s->n++];

	*i = (struct fabric_item){ .kind = kind, .pair = pair, .session = p ? p->peer.session : 0, .at = at };
	return i;
}

// room reports whether n more items fit.
static int room(const struct sink *s, int n)
{
	return s->n + n <= s->cap;
}

// send_probe sends the next probe of a pair. One that the device refuses has not used up its number.
static void send_probe(struct fabric *f, int i, struct pair *p, struct sink *s)
{
	uint32_t seq = p->seq + 1;
	int path = p->seq % p->peer.paths;
	struct datagram_wire m = { .type = T_PROBE, .seq = htobe32(seq) };
	int64_t t = now();
	int err = post_datagram_to(f, p, path, &m);
	struct fabric_item *out = item(s, err ? FK_UNSENT : FK_PROBE, i, p, t);

	out->path = path;
	out->seq = seq;
	if (err) {
		out->status = -failed(C_POST_SEND, err).err;
		return;
	}
	p->seq = seq;
	p->sent[seq % 256].seq = seq;
	p->sent[seq % 256].at = t;
	add(&p->led->sent, 1);
	if (!p->look) {
		p->look = t + f->c.missing_ns;
		p->awaited = seq;
	}
}

void fail_write(int i, struct pair *p, int64_t t, int status, struct sink *s)
{
	struct fabric_item *out = item(s, FK_WRITE_FAILED, i, p, t);

	out->status = status;
	out->took = t - p->write_at;
	p->write_at = 0;
	p->write_failed = 1;
	s->amiss = 1;
	add(&p->led->write_errors, 1);
}

// send_write posts a write of no bytes. Its key and address are zeros: a responder must not check them for a write without
// bytes (InfiniBand specification, C9-88). A write that the device refuses was posted and failed.
static void send_write(struct fabric *f, int i, struct pair *p, struct sink *s)
{
	struct ibv_send_wr wr = { .wr_id = work(WR_WRITE, i, p->generation),
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	int err;

	p->write_at = now();
	err = FABRIC_CALL(f, C_POST_SEND, ibv_post_send(p->rc, &wr, &bad));
	item(s, FK_WRITE, i, p, p->write_at);
	add(&p->led->writes, 1);
	if (err)
		fail_write(i, p, p->write_at, -failed(C_POST_SEND, err).err, s);
}

// missing is called when the echo that is awaited has not come in time. If the write is silent too, more probes follow soon;
// a peer whose device acknowledges is merely busy, and is never asked more. The rule is that of verdict.EchoWatch, with its times.
static void missing(const struct fabric *f, int i, struct pair *p, int64_t t, struct sink *s)
{
	p->look = 0;
	if (!p->reported) {
		item(s, FK_MISSING, i, p, t);
		s->amiss = 1;
		p->reported = 1;
	}
	if (!p->asked && (p->write_failed || (p->write_at && t - p->write_at >= f->c.write_silent_ns))) {
		p->asked = 1;
		p->more = f->c.more_probes;
		p->next_more = t;
	}
}

// step does what is due of a pair: it makes four items at most.
static void step(struct fabric *f, int i, struct pair *p, int64_t t, int all_taken, struct sink *s)
{
	if (all_taken && p->look && t >= p->look)
		missing(f, i, p, t, s);
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

// due returns when the next step of any pair is due, at most until.
static int64_t due(const struct fabric *f, int64_t until)
{
	int i;

	for (i = 0; i < FABRIC_PAIRS; i++) {
		const struct pair *p = f->pair[i];

		if (!p || p->peer.role != FR_PROBES)
			continue;
		if (p->next < until)
			until = p->next;
		if (p->look && p->look < until)
			until = p->look;
		if (p->more && p->next_more < until)
			until = p->next_more;
	}
	return until;
}

// notice_late excuses the pairs from what the thread was too late for: they have all of their time once more.
static void notice_late(struct fabric *f, int64_t t, struct sink *s)
{
	int64_t late = f->expected ? t - f->expected : 0;
	int i;

	if (late <= f->c.late_ns)
		return;
	for (i = 0; i < FABRIC_PAIRS; i++)
		if (f->pair[i] && f->pair[i]->look)
			f->pair[i]->look = t + f->c.missing_ns;
	item(s, FK_LATE, -1, NULL, t)->took = late;
	s->amiss = 1;
}

// turn takes what has completed, and after that does what is due. It returns as drain does. While there is more to take, no
// echo is missing.
static int turn(struct fabric *f, struct sink *s)
{
	int more = ended(f) ? -1 : drain(f, s), i;
	int64_t t = more ? now() : f->up_to;

	if (more < 0)
		return more;
	if (!more)
		notice_late(f, t, s);
	for (i = 0; i < FABRIC_PAIRS && room(s, 4); i++)
		if (f->pair[i] && f->pair[i]->peer.role == FR_PROBES)
			step(f, i, f->pair[i], t, !more, s);
	f->expected = due(f, t + SECOND_NS);
	return more;
}

// wait_fabric waits until there is an event, a nudge or until. It returns an errno: ECANCELED when the device is being
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
	drained(f->nudge);
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
		more = turn(f, &s);
		pthread_mutex_unlock(&f->lock);
		if (more < 0 || s.amiss || now() >= until || !room(&s, FABRIC_ROOM))
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
