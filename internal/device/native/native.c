//go:build linux && cgo

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "native_lib.h"

struct verbs_library lib;

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;

static int load_locked(char *why, int size)
{
	static int loaded;
	void *so;

	if (loaded)
		return 0;
	// After a removal, old kernels refuse every destroy with EIO. The library reads
	// this variable when it starts. If it is set, the library takes EIO for success and
	// frees the object without waiting for the acknowledgement of its events. No thread
	// may then read events while another one destroys an object (ibv_open_device(3)).
	// In this program the reader continues to read while probers destroy objects, and
	// with a lock around both, a destroy that hangs would stop the reader. Without the
	// variable, a refused destroy frees nothing, whatever events the reader holds. A
	// removal ends the worker, and its exit frees the rest. Newer kernels do not refuse.
	unsetenv("RDMAV_ALLOW_DISASSOC_DESTROY");
	so = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!so) {
		snprintf(why, size, "%s", dlerror());
		return ENOENT;
	}
	// IBVERBS_1.0 has symbols with the same names for an older ABI.
#define X(f) \
	lib.f = dlvsym(so, "ibv_" #f, "IBVERBS_1.1"); \
	if (!lib.f) \
		lib.f = dlsym(so, "ibv_" #f); \
	if (!lib.f) { \
		snprintf(why, size, "libibverbs.so.1 has no ibv_" #f); \
		return ENOSYS; \
	}
	SYMBOLS(X)
	X(query_port)
#undef X
	lib.query_gid_table = dlsym(so, "_ibv_query_gid_table");
	lib.query_port_speed = dlsym(so, "ibv_query_port_speed");
	loaded = 1;
	return 0;
}

int native_load(struct ledger *led, char *why, int size)
{
	int err;

	pthread_mutex_lock(&load_lock);
	err = CALL(&led->control, C_LOAD_LIBRARY, load_locked(why, size));
	pthread_mutex_unlock(&load_lock);
	return err;
}

int native_listed(struct ledger *led, const char *name, int *has)
{
	int n = 0, i;
	struct ibv_device **list = CALL(&led->control, C_GET_DEVICE_LIST, lib.get_device_list(&n));

	*has = 0;
	if (!list)
		return -errno;
	for (i = 0; list[i]; i++)
		*has |= !strcmp(lib.get_device_name(list[i]), name);
	lib.free_device_list(list);
	return n;
}

const char *native_library(void)
{
	Dl_info info;

	return dladdr((void *)lib.get_device_list, &info) ? info.dli_fname : NULL;
}

static struct result open_context(const char *name, struct ledger *led, struct ibv_context **ctx)
{
	struct ibv_device **list = CALL(&led->control, C_GET_DEVICE_LIST, lib.get_device_list(NULL));
	int err = ENODEV, i;

	if (!list)
		return failed(C_GET_DEVICE_LIST, errno);
	*ctx = NULL;
	for (i = 0; list[i] && !*ctx; i++) {
		if (strcmp(lib.get_device_name(list[i]), name))
			continue;
		*ctx = CALL(&led->control, C_OPEN_DEVICE, lib.open_device(list[i]));
		err = errno;
		break;
	}
	lib.free_device_list(list);
	return *ctx ? (struct result){ 0 } : failed(C_OPEN_DEVICE, err);
}

static struct result read_device_info(struct device *d, struct device_info *info)
{
	struct ibv_device_attr attr;
	int err = CALL(&d->led->control, C_QUERY_DEVICE, lib.query_device(d->ctx, &attr));

	if (err)
		return failed(C_QUERY_DEVICE, err);
	info->ports = attr.phys_port_cnt;
	info->vectors = d->ctx->num_comp_vectors;
	info->transport = d->ctx->device->transport_type;
	memcpy(info->firmware, attr.fw_ver, sizeof info->firmware);
	info->firmware[sizeof info->firmware - 1] = 0;
	return (struct result){ 0 };
}

int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? errno : 0;
}

struct result native_open(const char *name, struct ledger *led, int doorbell, uint64_t port_types,
			  struct device **out, struct device_info *info)
{
	struct device *d = calloc(1, sizeof *d);
	struct result r;

	if (!d)
		return failed(C_OPEN_DEVICE, ENOMEM);
	d->led = led;
	d->doorbell = doorbell;
	d->port_types = port_types;
	d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->wake < 0) {
		r = failed(C_OPEN_DEVICE, errno);
		free(d);
		return r;
	}
	r = open_context(name, led, &d->ctx);
	if (!r.err)
		r = read_device_info(d, info);
	if (!r.err) {
		int err = set_nonblocking(d->ctx->async_fd);
		if (err)
			r = failed(C_OPEN_DEVICE, err);
	}
	if (r.err)
		native_close(d);
	else
		*out = d;
	return r;
}

void wake_up(int fd)
{
	uint64_t one = 1;

	// The write fails only if the counter is full, and then fd is readable.
	if (write(fd, &one, sizeof one) < 0)
		return;
}

void clear_eventfd(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof count) < 0)
		return;
}

void native_wake(struct device *d)
{
	wake_up(d->wake);
}

int native_close(struct device *d)
{
	int err = 0;

	if (d->ctx)
		err = CALL(&d->led->control, C_CLOSE_DEVICE, lib.close_device(d->ctx));
	if (err)
		err = failed(C_CLOSE_DEVICE, err).err;
	close(d->wake);
	free(d);
	return err;
}

struct result native_query_port(struct device *d, int port, struct port_info *out)
{
	struct verbs_context *ops = verbs_get_ctx_op(d->ctx, query_port);
	struct ibv_port_attr a;
	int err;

	memset(&a, 0, sizeof a);
	if (ops)
		err = PORT_CALL(&d->led->control, C_QUERY_PORT, port,
				ops->query_port(d->ctx, port, &a, sizeof a));
	else
		err = PORT_CALL(&d->led->control, C_QUERY_PORT, port,
				lib.query_port(d->ctx, port, (struct _compat_ibv_port_attr *)&a));
	if (err)
		return failed(C_QUERY_PORT, err);
	*out = (struct port_info){
		.state = a.state,
		.phys = a.phys_state,
		.link_layer = a.link_layer,
		.mtu = a.active_mtu,
		.lid = a.lid,
		.sm_lid = a.sm_lid,
		.width = a.active_width,
		.speed = a.active_speed,
		.needs_grh = !!(a.flags & IBV_QPF_GRH_REQUIRED),
	};
	return (struct result){ 0 };
}

struct result native_query_port_speed(struct device *d, int port, uint64_t *speed)
{
	int err = EOPNOTSUPP;

	// The call is recorded as a query of the port, which it is: it hangs in the same way.
	if (lib.query_port_speed)
		err = PORT_CALL(&d->led->control, C_QUERY_PORT, port,
				lib.query_port_speed(d->ctx, port, speed));
	return err ? failed(C_QUERY_PORT, err) : (struct result){ 0 };
}

// native_gids records no call in the ledger. The kernel answers from its own table, and the
// thread state for such calls may be in use by a port query that hangs.
int native_gids(struct device *d, struct gid_entry *out, int cap)
{
	struct ibv_gid_entry *entries;
	ssize_t n;
	int i;

	if (!lib.query_gid_table)
		return -ENOSYS;
	entries = calloc(cap, sizeof *entries);
	if (!entries)
		return -ENOMEM;
	n = lib.query_gid_table(d->ctx, entries, cap, 0, sizeof *entries);
	for (i = 0; i < n; i++) {
		out[i] = (struct gid_entry){ .index = entries[i].gid_index,
					     .port = entries[i].port_num,
					     .type = entries[i].gid_type,
					     .ifindex = entries[i].ndev_ifindex };
		memcpy(out[i].gid, entries[i].gid.raw, sizeof out[i].gid);
	}
	free(entries);
	return n;
}

// await repeats ppoll after a signal, because Linux never restarts ppoll and the Go runtime
// sends many signals.
int await(struct device *d, int fd, int64_t until)
{
	struct pollfd fds[2] = { { .fd = fd, .events = POLLIN }, { .fd = d->wake, .events = POLLIN } };

	for (;;) {
		int64_t left = until < 0 ? 0 : until - now();
		struct timespec t = { .tv_sec = left / 1000000000, .tv_nsec = left % 1000000000 };
		int n;

		if (left < 0)
			t = (struct timespec){ 0 };
		n = ppoll(fds, 2, until < 0 ? NULL : &t, NULL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		if (!n)
			return ETIMEDOUT;
		if (fds[1].revents)
			return ECANCELED;
		// Before Linux 6.4 a read of a closed channel returns EAGAIN, so the caller would wait again.
		return fds[0].revents & POLLIN ? 0 : EIO;
	}
}

struct ledger_event *event_slot(struct ledger *led, int32_t type, int32_t port)
{
	uint32_t n = led->events, i;
	struct ledger_event *e;

	for (i = 0; i < n; i++)
		if (led->event[i].type == type && led->event[i].port == port)
			return &led->event[i];
	if (n == LEDGER_EVENTS)
		return &led->event[n - 1];
	e = &led->event[n];
	e->type = n == LEDGER_EVENTS - 1 ? -1 : type;
	e->port = n == LEDGER_EVENTS - 1 ? 0 : port;
	__atomic_store_n(&led->events, n + 1, __ATOMIC_RELEASE);
	return e;
}

// event_port returns the port of an event, or 0. An event's element is a port number only for port
// events. The library also fills it for unknown event types, but it may be a truncated pointer.
static int32_t event_port(struct device *d, const struct ibv_async_event *e)
{
	unsigned type = e->event_type;

	return type < 64 && d->port_types >> type & 1 ? e->element.port_num : 0;
}

static void add_times(struct run *r, int64_t hold, int64_t ack)
{
	r->hold_sum += hold;
	r->ack_sum += ack;
	if (hold > r->hold_max)
		r->hold_max = hold;
	if (ack > r->ack_max)
		r->ack_max = ack;
}

// begin_run and end_run compute the count of a run from the ledger's count of its events, before
// and after the run.
static void begin_run(struct run *r, const struct ibv_async_event *e, int32_t port, int64_t got,
		      uint64_t before)
{
	*r = (struct run){ .type = e->event_type, .port = port, .first = got, .count = -before };
}

static void end_run(struct run *r, int64_t got, uint64_t after)
{
	r->count += after;
	r->last = got;
}

int native_read(struct device *d, struct run *runs, int cap, int64_t wait_ns)
{
	// In an endless storm native_read returns after this many events.
	enum { MAX_EVENTS = 1 << 14 };
	struct thread_state *state = &d->led->reader;
	struct ledger_event *counts = NULL;
	struct run *r = NULL;
	struct ibv_async_event e;
	int64_t t, got = 0, before;
	int ended, err = 0, n = 0, i;

	ended = await(d, d->ctx->async_fd, wait_ns < 0 ? -1 : now() + wait_ns);
	if (ended == ETIMEDOUT)
		return 0;
	// Events that are queued when the device is closed are still read.
	if (ended && ended != ECANCELED)
		return -ended;
	t = now();
	errno = 0;
	for (i = 0; i < MAX_EVENTS; i++) {
		int32_t port;

		set_call_at(state, C_GET_ASYNC_EVENT, t);
		err = lib.get_async_event(d->ctx, &e);
		if (err) {
			err = failed(C_GET_ASYNC_EVENT, err).err;
			break;
		}
		t = now();
		port = event_port(d, &e);
		if (!r || r->type != (int32_t)e.event_type || r->port != port) {
			if (r)
				end_run(r, got, counts->read);
			r = &runs[n++];
			counts = event_slot(d->led, e.event_type, port);
			begin_run(r, &e, port, t, counts->read);
		}
		got = t;
		add_count(&counts->read, 1);
		set_call(state, C_ACK_ASYNC_EVENT);
		before = now();
		lib.ack_async_event(&e);
		t = now();
		add_count(&counts->acked, 1);
		add_times(r, t - got, t - before);
		if (n == cap)
			break;
	}
	leave_call(state);
	if (r)
		end_run(r, got, counts->read);
	if (n) {
		publish_runs(d, runs, n);
		return n;
	}
	return ended ? -ended : err == EAGAIN || err == EINTR ? 0 : -err;
}
