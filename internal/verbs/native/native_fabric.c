//go:build linux && cgo

#define _GNU_SOURCE
#include <endian.h>
#include <poll.h>
#include <string.h>

#include "native_fabric.h"

#define MS 1000000LL

enum { MAGIC = 0x52444d46, VERSION = 1, T_PROBE = 1, T_ECHO = 2, MORE = 3 };

static const int64_t MISSING_NS = 100 * MS, MORE_NS = 50 * MS, LATE_NS = 50 * MS, SECOND_NS = 1000 * MS;

// sink is where items go while native_fabric_run lasts.
struct sink {
	struct fabric_item *out;
	int n, cap;
	int amiss; // something that does not wait for the end of the call
};

static struct fabric_item *item(struct sink *s, int kind, int pair, const struct pair *p, int64_t at)
{
	struct fabric_item *i = &s->out[s->n++];

	*i = (struct fabric_item){ .kind = kind, .pair = pair, .session = p ? p->peer.session : 0, .at = at };
	return i;
}

// room reports whether the items of one more step fit: a round makes two, and a completion one.
static int room(const struct sink *s)
{
	return s->n + 4 <= s->cap;
}

int post_fabric_receive(struct fabric *f, int path, int place)
{
	char *at = (char *)f->buffer + (size_t)(path * FABRIC_DEPTH + place) * FABRIC_SLOT;
	struct ibv_sge where = { (uintptr_t)at, FABRIC_SLOT, f->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = work(WR_RECEIVE, path, place), .sg_list = &where, .num_sge = 1 }, *bad;
	int err = FABRIC_CALL(f, C_POST_RECV, ibv_post_recv(f->ud[path], &wr, &bad));

	if (!err)
		f->posted[path]++;
	return err;
}

static int post_datagram_to(struct fabric *f, struct pair *p, int path, struct datagram_wire *m)
{
	struct ibv_sge what = { (uintptr_t)m, sizeof *m, 0 };
	struct ibv_send_wr wr = { .wr_id = work(WR_SEND, 0, path),
				  .sg_list = &what,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_INLINE };
	struct ibv_send_wr *bad;

	m->magic = htobe32(MAGIC);
	m->version = VERSION;
	m->path = path;
	m->session = htobe64(p->peer.session);
	if (++f->sends[path] % FABRIC_SIGNALED == 0)
		wr.send_flags |= IBV_SEND_SIGNALED;
	wr.wr.ud.ah = p->ah[path];
	wr.wr.ud.remote_qpn = p->peer.ud[path];
	wr.wr.ud.remote_qkey = p->peer.qkey;
	return FABRIC_CALL(f, C_POST_SEND, ibv_post_send(f->ud[path], &wr, &bad));
}

static void send_probe(struct fabric *f, int i, struct pair *p, int64_t t, struct sink *s)
{
	uint32_t seq = p->seq + 1;
	int path = p->seq % p->peer.paths;
	struct datagram_wire m = { .type = T_PROBE, .seq = htobe32(seq) };
	int err = post_datagram_to(f, p, path, &m);
	struct fabric_item *out = item(s, err ? FK_UNSENT : FK_PROBE, i, p, t);

	out->path = path;
	out->seq = seq;
	if (err) {
		out->status = failed(C_POST_SEND, err).err;
		return;
	}
	p->seq = seq;
	p->sent[seq % 256].seq = seq;
	p->sent[seq % 256].at = t;
	add(&p->led->sent, 1);
	if (!p->look) {
		p->look = t + MISSING_NS;
		p->awaited = seq;
	}
}

// send_write posts a write of no bytes. Its key and address are zeros: a responder must not check them for a write without
// bytes (InfiniBand specification, C9-88).
static void send_write(struct fabric *f, int i, struct pair *p, struct sink *s)
{
	struct ibv_send_wr wr = { .wr_id = work(WR_WRITE, i, p->generation),
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	struct fabric_item *out;
	int64_t t = now();
	int err;

	err = FABRIC_CALL(f, C_POST_SEND, ibv_post_send(p->rc, &wr, &bad));
	out = item(s, err ? FK_WRITE_FAILED : FK_WRITE, i, p, t);
	if (err) {
		out->status = -failed(C_POST_SEND, err).err;
		p->write_failed = 1;
		s->amiss = 1;
		return;
	}
	p->write_at = t;
	add(&p->led->writes, 1);
}

// missing looks whether the echo that is awaited came in time. If it is missing while the write is silent too, more probes
// follow soon; a peer whose device acknowledges is merely busy, and is never asked more.
static void missing(int i, struct pair *p, int64_t t, struct sink *s)
{
	p->look = 0;
	if (p->asked)
		return;
	p->asked = 1;
	item(s, FK_MISSING, i, p, t);
	s->amiss = 1;
	if (p->write_at || p->write_failed) {
		p->more = MORE;
		p->next_more = t;
	}
}

// step does what is due of a pair.
static void step(struct fabric *f, int i, struct pair *p, int64_t t, struct sink *s)
{
	if (p->look && t >= p->look)
		missing(i, p, t, s);
	if (t >= p->next) {
		int64_t interval = f->c.interval_ns;

		send_probe(f, i, p, t, s);
		if (!p->write_at && !p->write_failed)
			send_write(f, i, p, s);
		p->next += interval + (t - p->next) / interval * interval;
	} else if (p->more && t >= p->next_more) {
		p->more--;
		p->next_more = t + MORE_NS;
		send_probe(f, i, p, t, s);
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

// notice_late excuses a pair from what the thread was too late for: its deadlines move by that.
static void notice_late(struct fabric *f, int64_t t, struct sink *s)
{
	int64_t late = f->expected ? t - f->expected : 0;
	int i;

	if (late <= LATE_NS)
		return;
	for (i = 0; i < FABRIC_PAIRS; i++)
		if (f->pair[i] && f->pair[i]->look)
			f->pair[i]->look += late;
	item(s, FK_LATE, -1, NULL, t)->took = late;
	s->amiss = 1;
}

// answer echoes a probe of a pair that is met, as long as it has not asked too often in this second. What it does not
// echo, it has received nevertheless.
static void answer(struct fabric *f, struct pair *p, const struct datagram_wire *m, int path, int64_t came)
{
	struct datagram_wire e = { .type = T_ECHO, .seq = m->seq };
	int64_t t = now();

	p->rx[path]++;
	if (t - p->second >= SECOND_NS) {
		p->second = t;
		p->echoes = 0;
	}
	if (p->echoes < FABRIC_ECHOES) {
		e.rx = htobe32(p->rx[path]);
		e.tx = htobe32(p->tx[path] + 1);
		e.dry = htobe32(f->dry[path]);
		e.delay = htobe64(t > came ? t - came : 0);
		if (!post_datagram_to(f, p, path, &e)) {
			p->echoes++;
			p->tx[path]++;
			add(&f->led->echoed, 1);
			return;
		}
	}
	add(&f->led->refused, 1);
}

// take_echo takes an echo of a probe that is known. It reports whether it is one.
static int take_echo(struct fabric *f, int i, struct pair *p, const struct datagram_wire *m, int path, int64_t came,
		     struct sink *s)
{
	uint32_t seq = be32toh(m->seq), dry = be32toh(m->dry);
	struct fabric_item *out;
	int64_t at;

	if (!seq || p->sent[seq % 256].seq != seq)
		return 0;
	at = p->sent[seq % 256].at;
	p->sent[seq % 256].seq = 0; // a second echo of it is foreign
	out = item(s, FK_ECHO, i, p, came);
	out->path = path;
	out->seq = seq;
	out->rx = be32toh(m->rx);
	out->tx = be32toh(m->tx);
	out->delay = be64toh(m->delay);
	out->took = came > at ? came - at : 0;
	out->dry = dry != p->peer_dry[path] || f->dry[path] != p->own_dry[path];
	p->peer_dry[path] = dry;
	p->own_dry[path] = f->dry[path];
	p->more = p->asked = 0;
	if ((int32_t)(seq - p->awaited) >= 0)
		p->look = 0;
	add(&p->led->answered, 1);
	return 1;
}

// take_datagram takes a datagram if it is of a pair: of its session, of the queue pair that belongs to the path, and of
// the kind that its role has to do with.
static int take_datagram(struct fabric *f, const struct ibv_wc *wc, int path, const struct datagram_wire *m, int64_t came,
			 struct sink *s)
{
	int role = m->type == T_PROBE ? FR_ANSWERS : FR_PROBES, i;
	uint64_t session = be64toh(m->session);

	if (wc->byte_len != FABRIC_GRH + sizeof *m || be32toh(m->magic) != MAGIC || m->version != VERSION ||
	    m->path != path || (m->type != T_PROBE && m->type != T_ECHO))
		return 0;
	for (i = 0; i < FABRIC_PAIRS; i++) {
		struct pair *p = f->pair[i];

		if (!p || p->peer.session != session || p->peer.role != role || path >= p->peer.paths ||
		    p->peer.ud[path] != wc->src_qp)
			continue;
		if (role == FR_PROBES)
			return take_echo(f, i, p, m, path, came, s);
		answer(f, p, m, path, came);
		return 1;
	}
	return 0;
}

static void take_write(struct fabric *f, const struct ibv_wc *wc, int64_t came, struct sink *s)
{
	int i = wc->wr_id >> 16 & 0xff;
	struct pair *p = i < FABRIC_PAIRS ? f->pair[i] : NULL;
	struct fabric_item *out;

	if (!p || p->generation != (wc->wr_id & 0xffff) || !p->write_at)
		return; // of a pair that is no more
	out = item(s, wc->status ? FK_WRITE_FAILED : FK_WRITE_DONE, i, p, came);
	out->took = came > p->write_at ? came - p->write_at : 0;
	out->status = wc->status;
	p->write_at = 0;
	if (wc->status) {
		p->write_failed = 1;
		s->amiss = 1;
		add(&p->led->write_errors, 1);
	} else {
		add(&p->led->writes_ok, 1);
	}
}

static void take_completion(struct fabric *f, const struct ibv_wc *wc, int64_t came, struct sink *s)
{
	int path = wc->wr_id >> 16 & 0xff, place = wc->wr_id & 0xffff;
	const struct datagram_wire *m;

	if (wc->wr_id >> 56 == WR_WRITE)
		take_write(f, wc, came, s);
	if (wc->wr_id >> 56 != WR_RECEIVE)
		return;
	m = (void *)((char *)f->buffer + (size_t)(path * FABRIC_DEPTH + place) * FABRIC_SLOT + FABRIC_GRH);
	if (wc->status || !take_datagram(f, wc, path, m, came, s))
		add(&f->led->foreign, 1);
	post_fabric_receive(f, path, place); // refused only by a queue pair in error, which its port's event reports
}

// collect polls what has completed, before any of it is looked at: only so is it seen that all receives of a path were
// used up, and that the device dropped what came then.
static int collect(struct fabric *f, int n)
{
	int got, path;

	while (n < FABRIC_BATCH && (got = ibv_poll_cq(f->cq, FABRIC_BATCH - n, f->wc + n)) != 0) {
		if (got < 0)
			return -EIO;
		for (; got; got--, n++) {
			path = f->wc[n].wr_id >> 16 & 0xff;
			if (f->wc[n].wr_id >> 56 == WR_RECEIVE && !--f->posted[path])
				f->used_up[path] = 1;
		}
	}
	return n;
}

// process takes n completions. Whoever asked before receives were used up hears nothing of it; the next one does.
static void process(struct fabric *f, int n, int64_t came, struct sink *s)
{
	int i, path;

	for (i = 0; i < n; i++)
		take_completion(f, &f->wc[i], came, s);
	for (path = 0; path < f->c.paths; path++) {
		if (!f->used_up[path])
			continue;
		f->used_up[path] = 0;
		f->dry[path]++;
		add(&f->led->dry, 1);
	}
}

// read_event reads one event, polls, arms and polls again, for the reasons that next_event has. It reports whether there
// was one.
static int read_event(struct fabric *f, int *n)
{
	struct ledger_lane *lane = &f->led->lane;
	struct ibv_cq *cq;
	void *context;
	int err;

	enter(lane, C_GET_CQ_EVENT, now());
	if (lib.get_cq_event(f->channel, &cq, &context)) {
		err = errno;
		leave(lane);
		return err == EAGAIN ? 0 : -failed(C_GET_CQ_EVENT, err).err;
	}
	add(&f->led->events, 1);
	go_on(lane, C_POLL_CQ);
	*n = collect(f, *n);
	err = FABRIC_CALL(f, C_REQ_NOTIFY_CQ, ibv_req_notify_cq(f->cq, 0));
	if (*n >= 0 && !err)
		*n = FABRIC_CALL(f, C_POLL_CQ, collect(f, *n));
	enter(lane, C_ACK_CQ_EVENTS, now());
	lib.ack_cq_events(cq, 1);
	leave(lane);
	add(&f->led->acked, 1);
	if (err)
		return -failed(C_REQ_NOTIFY_CQ, err).err;
	return *n < 0 ? *n : 1;
}

// drain takes all that has completed. Deadlines are looked at only after it.
static int drain(struct fabric *f, struct sink *s)
{
	for (;;) {
		int64_t came;
		int n = 0, event, free = s->cap - s->n;

		event = read_event(f, &n);
		if (event < 0)
			return event;
		if (!event)
			n = FABRIC_CALL(f, C_POLL_CQ, collect(f, 0));
		if (n < 0)
			return n;
		if (event && !n)
			add(&f->led->spurious, 1);
		came = now();
		process(f, n, came, s);
		if ((!event && !n) || free < 2 * FABRIC_BATCH)
			return 0;
	}
}

// wait_fabric waits until there is an event, a nudge or until. It returns ECANCELED when the device is being closed.
static int wait_fabric(struct fabric *f, int64_t until)
{
	struct pollfd fds[3] = { { .fd = f->channel->fd, .events = POLLIN },
				 { .fd = f->nudge, .events = POLLIN },
				 { .fd = f->d->wake, .events = POLLIN } };
	int64_t left = until - now();
	struct timespec t = { .tv_sec = left / SECOND_NS, .tv_nsec = left % SECOND_NS };

	if (left <= 0)
		return 0;
	if (ppoll(fds, 3, &t, NULL) < 0)
		return errno == EINTR ? 0 : errno;
	if (fds[2].revents)
		return ECANCELED;
	if (fds[0].revents & ~POLLIN)
		return EIO;
	if (fds[1].revents)
		drained(f->nudge);
	return fds[1].revents ? EINTR : 0;
}

int native_fabric_run(struct fabric *f, int64_t for_ns, struct fabric_item *out, int cap)
{
	struct sink s = { .out = out, .cap = cap };
	int64_t end = now() + for_ns, t;
	int err = 0, i;

	while (!err) {
		pthread_mutex_lock(&f->lock);
		err = -drain(f, &s);
		t = now();
		if (!err)
			notice_late(f, t, &s);
		for (i = 0; i < FABRIC_PAIRS && !err && room(&s); i++)
			if (f->pair[i] && f->pair[i]->peer.role == FR_PROBES)
				step(f, i, f->pair[i], t, &s);
		f->expected = due(f, t + SECOND_NS);
		pthread_mutex_unlock(&f->lock);
		if (err || s.amiss || t >= end || s.n + FABRIC_BATCH + 4 > s.cap)
			break;
		err = wait_fabric(f, f->expected < end ? f->expected : end);
	}
	if (err && err != ECANCELED && err != EINTR && !s.n)
		return -err;
	return s.n;
}
