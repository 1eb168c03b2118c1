// SPDX-License-Identifier: MIT
/*
 * The host side of QEMU's device model "pvrdma", for a machine without RDMA. It is preloaded into qemu-system-x86_64,
 * where it takes the place of libibverbs and of the daemon rdmacm-mux. It has one device with one RoCE port, whose
 * queue pairs reach each other in memory.
 *
 *   PVHOST_MUX=PATH   the socket of the daemon: -chardev socket,path=PATH,id=mux
 *   PVHOST_DIR=DIR    DIR/log gets its log. DIR/order, which has to appear whole, has one order. The file is gone once
 *                     that is in force. An order that it does not know becomes DIR/refused.
 *
 * The orders:
 *
 *   port down|up              what a query of the port says
 *   datagrams lost|delivered  whether datagrams arrive; they are sent in either case
 *   interrupts lost|raised    whether completions raise an interrupt
 *
 * What the device model of QEMU 7.2 leaves out is made up for here:
 *
 * - It never raises an interrupt for a queue that was armed for any completion, but always one for the queue of queue
 *   pair 1. Hence the guest gets an unsolicited management datagram after completions. Its driver then looks
 *   at all queues.
 * - It posts every request as a plain send. The opcode and the immediate data are read from the guest's own request.
 * - It leaves immediate data out of completions. They are put into the guest's completion queue once it has written
 *   the completion, which it marks for us by the vendor's error.
 * - To stop its thread for completions it waits for seconds while the guest stands still. It waits shorter.
 *
 * What this cannot make up for: a queue pair that the guest moves to the error state is not flushed, since the device
 * model does not pass that on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_mad.h>
#include <rdma/vmw_pvrdma-abi.h>

/* QEMU calls the functions of the library. These macros of verbs.h would rename them. */
#undef ibv_query_port
#undef ibv_reg_mr

/* The number of GIDs, of entries in a queue, of buffers in a request, of pages that a completion queue has at most. */
enum { GIDS = 128, ENTRIES = 4096, BUFFERS = 8, PAGES = 64 };
enum { PAGE = 4096, GRH = 40, LONGEST = PAGE, FIRST_QP = 0x20 };

/* How the guest's completion is found that a completion's immediate data belong in. */
enum { MARK = 0x5a170000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all variables below, but for the log */

static bool port_is_up = true, datagrams_arrive = true, interrupts_come = true;

/*
 * GIDs of the guest. QEMU searches the table without end for a GID that is not there, and takes index 0 for no index.
 * So the first entry is a GID that no port has, and the last one stays empty: an address that the guest has deleted is found
 * there.
 */
static union ibv_gid gids[GIDS] = { { .raw = { 0xfe, 0x80, [15] = 1 } } };

static FILE *log_file;

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
	struct timespec t;
	char line[256];
	va_list args;

	if (!log_file)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	clock_gettime(CLOCK_REALTIME, &t);
	fprintf(log_file, "%lld.%06ld %s\n", (long long)t.tv_sec, t.tv_nsec / 1000, line);
}

/* ---- the socket of rdmacm-mux ---- */

/* A message in either direction (contrib/rdmacm-mux/rdmacm-mux.h of QEMU). */
struct mux_message {
	struct {
		uint32_t type, code;
		union ibv_gid gid;
		uint32_t error;
	} head;
	uint32_t length; /* of the datagram */
	struct ib_user_mad_hdr header;
	uint8_t datagram[256];
};
_Static_assert(sizeof(struct mux_message) == 360, "the size of QEMU's message");

enum { MUX_REQUEST, MUX_ANSWER };
enum { MUX_REGISTER, MUX_UNREGISTER, MUX_DATAGRAM };

static int mux = -1; /* the connection to QEMU */

/*
 * The only message that QEMU is sent. It is an answer that says yes, and it is a datagram to queue pair 1 as well: QEMU
 * looks at the type where it waits for an answer, and takes any other message with this code for a datagram. So it does
 * not matter that a datagram may come while QEMU waits for an answer. The guest's kernel drops the datagram: it is a
 * response about performance to a request that was not made.
 */
static void send_to_guest(void)
{
	struct mux_message m = {
		.head = { .type = MUX_ANSWER, .code = MUX_DATAGRAM, .gid = gids[1] },
		.length = sizeof m.datagram,
		.header = { .qpn = htobe32(1) },
		/* Base version, class, class version and method (IBA 13.4.2), and a transaction that no agent has. */
		.datagram = { 1, 0x04, 1, 0x81, [8] = 0xff },
	};

	memcpy(m.header.gid, gids[1].raw, sizeof m.header.gid);
	if (mux >= 0 && send(mux, &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof m)
		note("message to the guest lost: %s", strerror(errno));
}

static bool same_gid(const union ibv_gid *a, const union ibv_gid *b)
{
	return !memcmp(a, b, sizeof *a);
}

/* Returns -1 if no entry has the GID. */
static int find_gid(const union ibv_gid *gid)
{
	for (int i = 0; i < GIDS; i++)
		if (same_gid(&gids[i], gid))
			return i;
	return -1;
}

/* The first entry that is not used is the last one if the table is full. */
static void register_gid(const union ibv_gid *gid)
{
	static const union ibv_gid none;
	int i = find_gid(gid);

	if (i < 0)
		i = find_gid(&none);
	if (i == GIDS - 1)
		note("no space for another GID");
	else
		gids[i] = *gid;
}

static void unregister_gid(const union ibv_gid *gid)
{
	int i = find_gid(gid);

	if (i > 0)
		memset(&gids[i], 0, sizeof gids[i]);
}

static void take_message(const struct mux_message *m)
{
	if (m->head.type != MUX_REQUEST)
		return;
	pthread_mutex_lock(&mutex);
	if (m->head.code == MUX_REGISTER)
		register_gid(&m->head.gid);
	else if (m->head.code == MUX_UNREGISTER)
		unregister_gid(&m->head.gid);
	note("request %u, GID of interface %016llx", m->head.code,
	     (unsigned long long)be64toh(m->head.gid.global.interface_id));
	send_to_guest();
	pthread_mutex_unlock(&mutex);
}

static void *serve_mux(void *arg)
{
	int listener = (int)(intptr_t)arg, connection;
	struct mux_message m;

	while ((connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		pthread_mutex_lock(&mutex);
		mux = connection;
		pthread_mutex_unlock(&mutex);
		while (recv(connection, &m, sizeof m, MSG_WAITALL) == sizeof m)
			take_message(&m);
		pthread_mutex_lock(&mutex);
		mux = -1;
		pthread_mutex_unlock(&mutex);
		close(connection);
	}
	note("accept QEMU at the socket: %s", strerror(errno));
	return NULL;
}

/* ---- orders ---- */

static const struct {
	const char *text;
	bool *variable;
	bool value;
} orders[] = {
	{ "port down", &port_is_up, false },
	{ "port up", &port_is_up, true },
	{ "datagrams lost", &datagrams_arrive, false },
	{ "datagrams delivered", &datagrams_arrive, true },
	{ "interrupts lost", &interrupts_come, false },
	{ "interrupts raised", &interrupts_come, true },
};

static bool obey(const char *text)
{
	for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
		if (strcmp(text, orders[i].text))
			continue;
		pthread_mutex_lock(&mutex);
		*orders[i].variable = orders[i].value;
		pthread_mutex_unlock(&mutex);
		return true;
	}
	return false;
}

static char order_path[256], refused_path[256];

/* Looks for an order every 20 ms. */
static void *take_orders(void *arg)
{
	for (;; usleep(20000)) {
		char text[64] = "";
		FILE *f = fopen(order_path, "re");
		bool known;

		if (!f)
			continue;
		if (!fgets(text, sizeof text, f))
			text[0] = 0;
		fclose(f);
		text[strcspn(text, "\n")] = 0;
		known = obey(text);
		note("order \"%s\"%s", text, known ? "" : " refused");
		if (known ? unlink(order_path) : rename(order_path, refused_path)) {
			note("take order away: %s", strerror(errno));
			return arg;
		}
	}
}

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "pvhost: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void open_log(const char *dir)
{
	char path[256];

	snprintf(path, sizeof path, "%s/log", dir);
	log_file = fopen(path, "ae");
	if (!log_file)
		die(path);
	setvbuf(log_file, NULL, _IOLBF, 0);
}

static void start_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	errno = pthread_create(&thread, NULL, run, arg);
	if (errno)
		die("start a thread");
	pthread_detach(thread);
}

/* QEMU connects to the socket before it calls the first function of the library. */
__attribute__((constructor)) static void start(void)
{
	const char *dir = getenv("PVHOST_DIR"), *path = getenv("PVHOST_MUX");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int listener;

	if (!dir || !path)
		return;
	if ((size_t)snprintf(address.sun_path, sizeof address.sun_path, "%s", path) >=
		    sizeof address.sun_path ||
	    (size_t)snprintf(order_path, sizeof order_path, "%s/order", dir) >= sizeof order_path ||
	    (size_t)snprintf(refused_path, sizeof refused_path, "%s/refused", dir) >= sizeof refused_path) {
		errno = ENAMETOOLONG;
		die("read PVHOST_DIR and PVHOST_MUX");
	}
	unsetenv("LD_PRELOAD"); /* it is not for programs that QEMU may start */
	open_log(dir);
	unlink(path); /* of a boot before */
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) ||
	    listen(listener, 1))
		die(path);
	start_thread(serve_mux, (void *)(intptr_t)listener);
	start_thread(take_orders, NULL);
}

/* ---- the objects ---- */

struct region {
	struct ibv_mr verbs;
	uint64_t start; /* the guest's address of its first byte */
	struct region *next;
};

struct handle {
	struct ibv_ah verbs;
	union ibv_gid gid;
};

struct channel {
	struct ibv_comp_channel verbs; /* its descriptor is an eventfd that counts queues with an event */
};

/* A completion whose immediate data are not yet in the guest's queue. */
struct unmended {
	uint32_t mark;
	__be32 immediate;
};

struct queue {
	struct ibv_cq verbs;
	struct ibv_wc completions[ENTRIES];
	unsigned first, count;
	unsigned taken; /* since it was last found empty */
	bool armed, has_event, destroyed;
	struct unmended unmended[16];
	unsigned unmended_count;
	struct pvrdma_cqe *pages[PAGES]; /* of the guest's queue, as far as they are known */
	unsigned page_count;
	struct queue *next;
};

struct receive {
	uint64_t id;
	int count;
	struct ibv_sge buffers[BUFFERS];
};

struct pair {
	struct ibv_qp verbs;
	struct ibv_qp_init_attr made_with;
	uint32_t qkey, peer;
	struct receive receives[ENTRIES];
	unsigned first, count;
	struct pair *next;
};

static struct region *regions;
static struct queue *queues;
static struct pair *pairs;
static uint32_t next_key = 1;

static void *make(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		die("allocate memory");
	return p;
}

/* ---- the guest's memory ---- */

/*
 * Returns where the guest's memory is mapped: the largest of the shared, anonymous mappings. QEMU maps parts of it a second
 * time, for memory regions.
 */
static char *guest_memory(size_t *size)
{
	static char *base;
	static size_t length;
	unsigned long from, to;
	char line[512];
	FILE *f;

	if (!base && (f = fopen("/proc/self/maps", "re"))) {
		while (fgets(line, sizeof line, f)) {
			if (!strstr(line, " /dev/zero (deleted)") || sscanf(line, "%lx-%lx", &from, &to) != 2)
				continue;
			if (to - from > length) {
				base = (char *)from; /* NOLINT(performance-no-int-to-ptr) */
				length = to - from;
			}
		}
		fclose(f);
	}
	*size = length;
	return base;
}

static struct pvrdma_cqe *find_in_page(struct pvrdma_cqe *page, uint32_t mark)
{
	for (size_t i = 0; i < PAGE / sizeof *page; i++)
		if (page[i].vendor_err == mark && page[i].wc_flags & PVRDMA_WC_WITH_IMM)
			return &page[i];
	return NULL;
}

/* Searches all pages that the guest has touched, which takes a fraction of a second, and remembers the page. */
static struct pvrdma_cqe *find_in_guest(struct queue *q, uint32_t mark)
{
	unsigned char touched[1024];
	size_t size, at;
	char *memory = guest_memory(&size);

	for (at = 0; memory && at + sizeof touched * PAGE <= size; at += sizeof touched * PAGE) {
		if (mincore(memory + at, sizeof touched * PAGE, touched))
			continue;
		for (size_t i = 0; i < sizeof touched; i++) {
			struct pvrdma_cqe *page = (struct pvrdma_cqe *)(memory + at + i * PAGE);
			struct pvrdma_cqe *found = touched[i] & 1 ? find_in_page(page, mark) : NULL;

			if (!found)
				continue;
			if (q->page_count < PAGES)
				q->pages[q->page_count++] = page;
			return found;
		}
	}
	return NULL;
}

static void mend(struct queue *q)
{
	while (q->unmended_count) {
		struct unmended *u = &q->unmended[--q->unmended_count];
		struct pvrdma_cqe *found = NULL;

		for (unsigned i = 0; i < q->page_count && !found; i++)
			found = find_in_page(q->pages[i], u->mark);
		if (!found)
			found = find_in_guest(q, u->mark);
		if (!found) {
			note("completion %#x is not in the guest's memory", u->mark);
			continue;
		}
		found->imm_data = u->immediate;
		found->vendor_err = 0;
	}
}

/* ---- completions ---- */

static void raise_event(struct queue *q)
{
	q->armed = false;
	if (q->has_event || !q->verbs.channel)
		return;
	q->has_event = true;
	if (eventfd_write(q->verbs.channel->fd, 1))
		note("raise an event: %s", strerror(errno));
}

static void complete(struct ibv_cq *verbs, struct ibv_wc wc)
{
	struct queue *q = (struct queue *)verbs;

	if (q->destroyed)
		return;
	if (q->count == ENTRIES) {
		note("a completion queue is full");
		return;
	}
	q->completions[(q->first + q->count++) % ENTRIES] = wc;
	if (q->armed)
		raise_event(q);
}

/*
 * QEMU puts what it has polled into the guest's queues before it polls again. So the guest has all completions when a
 * poll finds none after others.
 */
static int poll_cq(struct ibv_cq *verbs, int max, struct ibv_wc *to)
{
	static uint32_t marks;
	struct queue *q = (struct queue *)verbs;
	int n = 0;

	pthread_mutex_lock(&mutex);
	if (!q->destroyed)
		mend(q);
	while (!q->destroyed && n < max && q->count && q->unmended_count < 16) {
		struct ibv_wc *wc = &to[n++];

		*wc = q->completions[q->first];
		q->first = (q->first + 1) % ENTRIES;
		q->count--;
		if (!(wc->wc_flags & IBV_WC_WITH_IMM))
			continue;
		wc->vendor_err = MARK | (marks++ & 0xffff);
		q->unmended[q->unmended_count++] = (struct unmended){ wc->vendor_err, wc->imm_data };
	}
	q->taken += n;
	if (!n && q->taken) {
		q->taken = 0;
		if (interrupts_come)
			send_to_guest();
	}
	pthread_mutex_unlock(&mutex);
	return n;
}

static int req_notify_cq(struct ibv_cq *verbs, int solicited_only)
{
	struct queue *q = (struct queue *)verbs;

	(void)solicited_only;
	pthread_mutex_lock(&mutex);
	q->armed = true;
	if (q->count)
		raise_event(q); /* QEMU polls after this, but not again before the next event */
	pthread_mutex_unlock(&mutex);
	return 0;
}

/* ---- requests ---- */

/* Returns where n bytes of the guest at an address are mapped; NULL if they are not in the region. */
static uint8_t *mapped(uint32_t key, uint64_t address, uint32_t n)
{
	for (struct region *r = regions; r; r = r->next)
		if (r->verbs.lkey == key && address >= r->start && address - r->start + n <= r->verbs.length)
			return (uint8_t *)r->verbs.addr + (address - r->start);
	return NULL;
}

static struct pair *find_pair(uint32_t number)
{
	struct pair *p = pairs;

	while (p && p->verbs.qp_num != number)
		p = p->next;
	return p;
}

/* Copies the bytes of a list of buffers, of which no more than size. Returns how many, or -1. */
static int gather(const struct ibv_sge *buffers, int count, uint8_t *to, uint32_t size)
{
	uint32_t n = 0;

	for (int i = 0; i < count; i++) {
		const uint8_t *from = mapped(buffers[i].lkey, buffers[i].addr, buffers[i].length);

		if (!buffers[i].length)
			continue;
		if (!from || buffers[i].length > size - n)
			return -1;
		memcpy(to + n, from, buffers[i].length);
		n += buffers[i].length;
	}
	return (int)n;
}

/* Copies n bytes into a list of buffers. Reports whether they had the space. */
static bool scatter(const struct receive *r, const uint8_t *from, uint32_t n)
{
	for (int i = 0; i < r->count && n; i++) {
		uint32_t part = r->buffers[i].length < n ? r->buffers[i].length : n;
		uint8_t *to = mapped(r->buffers[i].lkey, r->buffers[i].addr, part);

		if (!to)
			return false;
		memcpy(to, from, part);
		from += part;
		n -= part;
	}
	return !n;
}

/*
 * The guest's own request. QEMU does not copy its list of buffers, which comes right after it. With the number of
 * buffers, a mistake about that would be noticed.
 */
static const struct pvrdma_sq_wqe_hdr *request_of(const struct ibv_send_wr *wr)
{
	const struct pvrdma_sq_wqe_hdr *h = (const struct pvrdma_sq_wqe_hdr *)wr->sg_list - 1;

	return h->num_sge == (uint32_t)wr->num_sge ? h : NULL;
}

/* Puts a message into the next receive of a queue pair. gid is the address of a datagram; NULL: it is none. */
static enum ibv_wc_status deliver(struct pair *to, const struct pair *from, const struct ibv_send_wr *wr,
				  const struct pvrdma_sq_wqe_hdr *request, const union ibv_gid *gid)
{
	struct ibv_grh grh = { .version_tclass_flow = htobe32(6U << 28), .next_hdr = 0x1b, .hop_limit = 64 };
	struct ibv_wc wc = { .opcode = IBV_WC_RECV,
			     .qp_num = to->verbs.qp_num,
			     .src_qp = from->verbs.qp_num };
	uint8_t message[GRH + LONGEST];
	int n, offset = gid ? GRH : 0;
	struct receive *r;

	n = gather(wr->sg_list, wr->num_sge, message + offset, LONGEST);
	if (n < 0)
		return IBV_WC_LOC_PROT_ERR;
	if (!to->count) /* a datagram is lost then, without an error */
		return gid ? IBV_WC_SUCCESS : IBV_WC_RNR_RETRY_EXC_ERR;
	if (gid) {
		grh.paylen = htobe16(n);
		grh.sgid = grh.dgid = *gid;
		memcpy(message, &grh, GRH);
		wc.wc_flags |= IBV_WC_GRH;
	}
	r = &to->receives[to->first];
	to->first = (to->first + 1) % ENTRIES;
	to->count--;
	wc.wr_id = r->id;
	wc.byte_len = n + offset;
	if (!scatter(r, message, wc.byte_len))
		wc.status = IBV_WC_LOC_LEN_ERR;
	if (request->opcode == PVRDMA_WR_SEND_WITH_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = request->ex.imm_data;
	}
	complete(to->verbs.recv_cq, wc);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status send_datagram(const struct pair *from, const struct ibv_send_wr *wr,
					const struct pvrdma_sq_wqe_hdr *request)
{
	const struct handle *h = (const struct handle *)wr->wr.ud.ah;
	struct pair *to = find_pair(wr->wr.ud.remote_qpn);

	if (!datagrams_arrive || !to || to->qkey != wr->wr.ud.remote_qkey || find_gid(&h->gid) < 1) {
		note("datagram to queue pair %#x lost", wr->wr.ud.remote_qpn);
		return IBV_WC_SUCCESS;
	}
	return deliver(to, from, wr, request, &h->gid);
}

/* What a connection can do here: messages, and writes of no bytes, for which no memory is needed. */
static enum ibv_wc_status send_connected(const struct pair *from, const struct ibv_send_wr *wr,
					 const struct pvrdma_sq_wqe_hdr *request)
{
	struct pair *to = find_pair(from->peer);

	if (!to)
		return IBV_WC_RETRY_EXC_ERR;
	switch (request->opcode) {
	case PVRDMA_WR_SEND:
	case PVRDMA_WR_SEND_WITH_IMM: return deliver(to, from, wr, request, NULL);
	case PVRDMA_WR_RDMA_WRITE:
		for (int i = 0; i < wr->num_sge; i++)
			if (wr->sg_list[i].length)
				return IBV_WC_REM_ACCESS_ERR;
		return IBV_WC_SUCCESS;
	default: return IBV_WC_REM_INV_REQ_ERR;
	}
}

static void flush(struct pair *p)
{
	p->verbs.state = IBV_QPS_ERR;
	for (; p->count; p->count--) {
		complete(p->verbs.recv_cq, (struct ibv_wc){ .wr_id = p->receives[p->first].id,
							    .status = IBV_WC_WR_FLUSH_ERR,
							    .qp_num = p->verbs.qp_num });
		p->first = (p->first + 1) % ENTRIES;
	}
}

static enum ibv_wc_status carry_out(const struct pair *p, const struct ibv_send_wr *wr)
{
	const struct pvrdma_sq_wqe_hdr *request = request_of(wr);

	if (p->verbs.state == IBV_QPS_ERR)
		return IBV_WC_WR_FLUSH_ERR;
	if (p->verbs.state != IBV_QPS_RTS || !request)
		return IBV_WC_LOC_QP_OP_ERR;
	return p->verbs.qp_type == IBV_QPT_UD ? send_datagram(p, wr, request)
					      : send_connected(p, wr, request);
}

static int post_send(struct ibv_qp *verbs, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct pair *p = (struct pair *)verbs;

	(void)bad;
	pthread_mutex_lock(&mutex);
	for (; wr; wr = wr->next) {
		enum ibv_wc_status status = carry_out(p, wr);

		complete(verbs->send_cq, (struct ibv_wc){ .wr_id = wr->wr_id,
							  .status = status,
							  .opcode = IBV_WC_SEND,
							  .qp_num = verbs->qp_num });
		if (!status)
			continue;
		note("request of queue pair %#x ended as %s", verbs->qp_num, ibv_wc_status_str(status));
		if (verbs->qp_type != IBV_QPT_UD)
			flush(p);
	}
	pthread_mutex_unlock(&mutex);
	return 0;
}

static int post_recv(struct ibv_qp *verbs, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct pair *p = (struct pair *)verbs;

	pthread_mutex_lock(&mutex);
	for (; wr; wr = wr->next) {
		struct receive *r = &p->receives[(p->first + p->count) % ENTRIES];

		if (p->count == ENTRIES || wr->num_sge > BUFFERS) {
			*bad = wr;
			pthread_mutex_unlock(&mutex);
			return ENOMEM;
		}
		p->count++;
		r->id = wr->wr_id;
		r->count = wr->num_sge;
		for (int i = 0; i < r->count; i++)
			r->buffers[i] = wr->sg_list[i];
	}
	if (verbs->state == IBV_QPS_ERR)
		flush(p);
	pthread_mutex_unlock(&mutex);
	return 0;
}

/* ---- the calls of libibverbs that QEMU makes ---- */

static struct ibv_device device = {
	.node_type = IBV_NODE_CA,
	.transport_type = IBV_TRANSPORT_IB,
	.name = "pvhost0",
	.dev_name = "uverbs0",
};

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = make(2 * sizeof *list);

	list[0] = &device;
	if (count)
		*count = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list); /* NOLINT(bugprone-multi-level-implicit-pointer-conversion) */
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

/* A context without abi_compat has no extensions, so that each call comes to a function of this file. */
struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct ibv_context *c = make(sizeof *c);

	*c = (struct ibv_context){
		.device = d,
		.cmd_fd = -1,
		.async_fd = -1,
		.num_comp_vectors = 1,
		.ops = { .poll_cq = poll_cq,
			 .req_notify_cq = req_notify_cq,
			 .post_send = post_send,
			 .post_recv = post_recv },
	};
	return c;
}

int ibv_close_device(struct ibv_context *c)
{
	free(c);
	return 0;
}

/* QEMU aborts if a device has no shared receive queue at all, as this one. */
int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a)
{
	(void)c;
	*a = (struct ibv_device_attr){
		.max_mr_size = 1ULL << 32,
		.max_qp = 1024,
		.max_qp_wr = ENTRIES,
		.max_sge = BUFFERS,
		.max_cq = 2048,
		.max_cqe = ENTRIES,
		.max_mr = 2048,
		.max_pd = 2048,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 16,
		.max_ah = 1024,
		.max_srq = 1,
		.max_pkeys = 1,
		.phys_port_cnt = 1,
	};
	return 0;
}

/* What a caller has that was compiled before the last two fields is written, and no more. */
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *to)
{
	struct ibv_port_attr a = {
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_1024,
		.gid_tbl_len = GIDS,
		.max_msg_sz = LONGEST,
		.pkey_tbl_len = 1,
		.active_width = 1,
		.active_speed = 1,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};

	(void)c;
	(void)port;
	pthread_mutex_lock(&mutex);
	a.state = port_is_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	a.phys_state = port_is_up ? 5 : 3; /* link up, disabled (IBA 14.2.5.6) */
	pthread_mutex_unlock(&mutex);
	memcpy(to, &a, offsetof(struct ibv_port_attr, port_cap_flags2));
	return 0;
}

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
	(void)c;
	(void)port;
	if (index < 0 || index >= GIDS)
		return -1;
	pthread_mutex_lock(&mutex);
	*gid = gids[index];
	pthread_mutex_unlock(&mutex);
	return 0;
}

static int channel_fd = -1;

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	struct channel *ch = make(sizeof *ch);

	ch->verbs.context = c;
	ch->verbs.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (ch->verbs.fd < 0) {
		free(ch);
		return NULL;
	}
	channel_fd = ch->verbs.fd;
	return &ch->verbs;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *verbs)
{
	channel_fd = -1;
	close(verbs->fd);
	free(verbs);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	eventfd_t count;

	while (!eventfd_read(channel->fd, &count)) {
		struct queue *q;

		pthread_mutex_lock(&mutex);
		for (q = queues; q && !(q->has_event && q->verbs.channel == channel); q = q->next)
			;
		if (q)
			q->has_event = false;
		pthread_mutex_unlock(&mutex);
		if (!q)
			continue; /* it is that of a queue which has been destroyed */
		*cq = &q->verbs;
		*context = q->verbs.cq_context;
		return 0;
	}
	return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	(void)cq;
	(void)count;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	struct ibv_pd *pd = make(sizeof *pd);

	pd->context = c;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

/* start is the guest's address of the first byte, which is mapped at address. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t start,
				unsigned int access)
{
	struct region *r = make(sizeof *r);

	(void)access;
	r->verbs = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = address, .length = length };
	r->start = start;
	pthread_mutex_lock(&mutex);
	r->verbs.lkey = r->verbs.rkey = next_key++;
	r->next = regions;
	regions = r;
	pthread_mutex_unlock(&mutex);
	return &r->verbs;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, address, length, (uintptr_t)address, access);
}

int ibv_dereg_mr(struct ibv_mr *verbs)
{
	struct region **at = &regions;

	pthread_mutex_lock(&mutex);
	while (*at && &(*at)->verbs != verbs)
		at = &(*at)->next;
	if (*at)
		*at = (*at)->next;
	pthread_mutex_unlock(&mutex);
	free(verbs);
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct handle *h = make(sizeof *h);

	h->verbs.context = pd->context;
	h->verbs.pd = pd;
	h->gid = attr->grh.dgid;
	return &h->verbs;
}

int ibv_destroy_ah(struct ibv_ah *verbs)
{
	free(verbs);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int entries, void *context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct queue *q = make(sizeof *q);

	(void)vector;
	q->verbs.context = c;
	q->verbs.channel = channel;
	q->verbs.cq_context = context;
	q->verbs.cqe = entries;
	pthread_mutex_lock(&mutex);
	q->next = queues;
	queues = q;
	pthread_mutex_unlock(&mutex);
	return &q->verbs;
}

/* The memory stays: QEMU's thread may be about to poll the queue. */
int ibv_destroy_cq(struct ibv_cq *verbs)
{
	struct queue **at = &queues;

	pthread_mutex_lock(&mutex);
	while (*at && &(*at)->verbs != verbs)
		at = &(*at)->next;
	if (*at) {
		(*at)->destroyed = true;
		*at = (*at)->next;
	}
	pthread_mutex_unlock(&mutex);
	return 0;
}

/* The number is the lowest that is free: the guest's driver has a table by the number. */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct pair *p = make(sizeof *p);
	uint32_t number = FIRST_QP;

	if (attr->srq) {
		free(p);
		errno = EOPNOTSUPP;
		return NULL;
	}
	pthread_mutex_lock(&mutex);
	while (find_pair(number))
		number++;
	p->verbs = (struct ibv_qp){ .context = pd->context,
				    .pd = pd,
				    .send_cq = attr->send_cq,
				    .recv_cq = attr->recv_cq,
				    .qp_num = number,
				    .qp_type = attr->qp_type,
				    .state = IBV_QPS_RESET };
	p->made_with = *attr;
	p->next = pairs;
	pairs = p;
	pthread_mutex_unlock(&mutex);
	return &p->verbs;
}

int ibv_destroy_qp(struct ibv_qp *verbs)
{
	struct pair **at = &pairs;

	pthread_mutex_lock(&mutex);
	while (*at && &(*at)->verbs != verbs)
		at = &(*at)->next;
	if (*at)
		*at = (*at)->next;
	pthread_mutex_unlock(&mutex);
	free(verbs);
	return 0;
}

int ibv_modify_qp(struct ibv_qp *verbs, struct ibv_qp_attr *attr, int mask)
{
	struct pair *p = (struct pair *)verbs;

	pthread_mutex_lock(&mutex);
	if (mask & IBV_QP_QKEY)
		p->qkey = attr->qkey;
	if (mask & IBV_QP_DEST_QPN)
		p->peer = attr->dest_qp_num;
	if (mask & IBV_QP_STATE)
		verbs->state = attr->qp_state;
	if (verbs->state == IBV_QPS_ERR)
		flush(p);
	if (verbs->state == IBV_QPS_RESET)
		p->first = p->count = 0;
	pthread_mutex_unlock(&mutex);
	return 0;
}

int ibv_query_qp(struct ibv_qp *verbs, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	const struct pair *p = (const struct pair *)verbs;

	(void)mask;
	pthread_mutex_lock(&mutex);
	*attr = (struct ibv_qp_attr){ .qp_state = verbs->state,
				      .cur_qp_state = verbs->state,
				      .qkey = p->qkey,
				      .dest_qp_num = p->peer,
				      .cap = p->made_with.cap,
				      .port_num = 1 };
	*init = p->made_with;
	pthread_mutex_unlock(&mutex);
	return 0;
}

/* No shared receive queue can be made. */
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	(void)pd;
	(void)attr;
	errno = EOPNOTSUPP;
	return NULL;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	(void)srq;
	(void)attr;
	(void)mask;
	return EOPNOTSUPP;
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	(void)srq;
	(void)attr;
	return EOPNOTSUPP;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	(void)srq;
	return EOPNOTSUPP;
}

/* ---- what QEMU waits by ---- */

/* The thread for completions looks every 5 s whether it is to stop. */
int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	static int (*real)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
	static const struct timespec short_wait = { .tv_nsec = 50000000 };

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "ppoll");
	if (count == 1 && channel_fd >= 0 && fds->fd == channel_fd)
		timeout = &short_wait;
	return real(fds, count, timeout, mask);
}

/*
 * Whoever stops that thread looks every 2 s whether it has stopped. And while the guest has no buffer for a management
 * datagram, as long as its driver is not loaded, the whole of QEMU would wait for more than an hour.
 */
unsigned int sleep(unsigned int seconds)
{
	(void)seconds;
	usleep(20000);
	return 0;
}
