#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "standin.h"

struct control *control;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
int live;

static struct ibv_device device = {
	.node_type = IBV_NODE_CA,
	.transport_type = IBV_TRANSPORT_IB,
	.name = "standin0",
	.dev_name = "uverbs0",
};
struct ibv_comp_channel *channels[16];
static struct ibv_srq srq;
static struct ibv_wq wq;

// Each worker has one device, which its first argument names, and a control page for it
// in the directory VERBS_STANDIN. The host passes that variable on. Without such a page,
// as for a worker that only prints its version, the library uses a page of its own.
static int open_control(int argc, char **argv)
{
	const char *path = getenv("STANDIN_CONTROL"), *dir = getenv("VERBS_STANDIN");
	char file[4096];

	if (dir && argc > 1) {
		snprintf(file, sizeof file, "%s/%s", dir, argv[1]);
		snprintf(device.name, sizeof device.name, "%s", argv[1]);
		if (access(file, F_OK))
			snprintf(file, sizeof file, "%s/library", dir);
		path = file;
	}
	return path ? open(path, O_RDWR | O_CLOEXEC) : -1;
}

__attribute__((constructor)) static void map_control(int argc, char **argv)
{
	int fd = open_control(argc, argv);

	if (fd < 0)
		abort();
	control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (control == MAP_FAILED)
		abort();
	close(fd);
	control->size = sizeof *control;
	control->gate = eventfd(0, EFD_CLOEXEC);
	control->entered = eventfd(0, EFD_CLOEXEC);
	control->srq = (uintptr_t)&srq;
	control->wq = (uintptr_t)&wq;
	control->removed = control->disassociate = 0;
	begin(C_LOAD_LIBRARY);
}

void note(const char *format, ...)
{
	int room = sizeof control->trace - control->trace_len, n;
	va_list args;

	va_start(args, format);
	n = vsnprintf(control->trace + control->trace_len, room, format, args);
	va_end(args);
	if (n + 1 >= room)
		return;
	control->trace_len += n + 1;
	control->trace[control->trace_len - 1] = '\n';
}

// Only the first violation is kept.
void violated(const char *format, ...)
{
	va_list args;

	if (control->violation[0])
		return;
	va_start(args, format);
	vsnprintf(control->violation, sizeof control->violation, format, args);
	va_end(args);
}

// hang_in_kernel waits in state D, as for a command that the firmware does not answer. It
// uses a vfork, whose parent waits in that state until the child has ended. If the parent
// is killed, the child ends as well.
static void hang_in_kernel(void)
{
	pid_t child = vfork();
	uint64_t word;

	if (child < 0)
		abort();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(read(control->gate, &word, sizeof word) < 0);
	}
	waitpid(child, NULL, 0);
}

static void hang(void)
{
	uint64_t word = 1;

	control->hang_call = 0;
	if (write(control->entered, &word, sizeof word) < 0)
		abort();
	if (control->hang_in_kernel)
		hang_in_kernel();
	else if (read(control->gate, &word, sizeof word) < 0)
		abort();
}

// crash ends the process as ordered, once: by a real fault, another signal, or an
// exit. The next worker does not crash.
static void crash(void)
{
	int signal = control->crash_signal;

	control->crash_call = 0;
	if (signal == SIGSEGV)
		*(volatile int *)8 = 0;
	if (signal)
		raise(signal);
	_exit(3);
}

// flood prints lines of all lengths to both streams, as a library does with a debug level left on.
static void flood(void)
{
	static const char line[] =
		"standin: a vendor's library has something to say about each of its calls, at length";
	int i;

	for (i = 0; i < control->flood / (int)sizeof line; i++) {
		fprintf(i & 1 ? stdout : stderr, "%.*s%s", i % (int)sizeof line, line, i % 7 ? "\n" : "");
	}
	fflush(stdout);
}

int begin(enum call call)
{
	int err = control->fail_errno;

	__atomic_fetch_add(&control->calls[call], 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&control->disassociate, __ATOMIC_RELAXED)) {
		pthread_mutex_lock(&lock); // other threads go on once the removal is complete
		if (control->disassociate) {
			remove_device();
			__atomic_store_n(&control->disassociate, 0, __ATOMIC_RELAXED);
		}
		pthread_mutex_unlock(&lock);
	}
	if (control->flood)
		flood();
	if (control->crash_call == (int)call)
		crash();
	if (control->hang_call == (int)call)
		hang();
	if (control->fail_call != (int)call || control->fail_skip-- > 0)
		return answer(call);
	if (!control->fail_always)
		control->fail_call = 0;
	if (control->fail_style == STYLE_SILENT)
		return -1;
	if (control->fail_style == STYLE_NEGATIVE)
		return -err;
	errno = err;
	return control->fail_style == STYLE_MINUS_ONE ? -1 : err;
}

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list;

	if (begin(C_GET_DEVICE_LIST))
		return NULL;
	list = calloc(2, sizeof *list);
	list[0] = control->unlisted ? NULL : &device;
	if (n)
		*n = !control->unlisted;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

static void fill_port(struct ibv_port_attr *a)
{
	*a = (struct ibv_port_attr){
		.state = control->port_state,
		.phys_state = control->phys_state ? control->phys_state : 5,
		.link_layer = control->link_layer,
		.active_mtu = IBV_MTU_1024,
		.lid = control->lid,
		.sm_lid = control->sm_lid < 0 ? 0
			  : control->sm_lid   ? control->sm_lid
					      : 1,
		.active_width = 2,
		.active_speed = control->speed ? control->speed : 32,
		.gid_tbl_len = 8,
		.pkey_tbl_len = 4,
		.flags = control->port_flags,
	};
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *a, size_t size)
{
	int err = begin(C_QUERY_PORT);

	(void)ctx;
	note("query_port port=%d", port);
	if (err)
		return err;
	if (control->removed)
		return EIO;
	if (size != sizeof *a)
		violated("query_port with %zu bytes", size);
	fill_port(a);
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *a)
{
	struct ibv_port_attr all;
	int err = query_port(ctx, port, &all, sizeof all);

	note("legacy query_port");
	// The older structure ends before the capabilities that were added later.
	if (!err)
		memcpy(a, &all, offsetof(struct ibv_port_attr, port_cap_flags2));
	return err;
}

int ibv_query_port_speed(struct ibv_context *ctx, uint32_t port, uint64_t *speed);
int ibv_query_port_speed(struct ibv_context *ctx, uint32_t port, uint64_t *speed)
{
	(void)ctx;
	if (!control->effective_speed)
		return EOPNOTSUPP;
	note("query_port_speed port=%u", port);
	if (control->effective_speed < 0)
		return -control->effective_speed;
	*speed = control->effective_speed;
	return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct verbs_context *v;
	int fds[2];

	if (begin(C_OPEN_DEVICE) || (control->dead && refused(C_OPEN_DEVICE, control->provider.dead_open)))
		return NULL;
	if (control->attack)
		attack();
	v = calloc(1, sizeof *v);
	if (!v || pipe2(fds, O_CLOEXEC))
		abort();
	v->sz = sizeof *v;
	v->query_port = query_port;
	v->context.device = d;
	v->context.ops.poll_cq = poll_cq;
	v->context.ops.req_notify_cq = req_notify_cq;
	v->context.ops.post_send = post_send;
	v->context.ops.post_recv = post_recv;
	v->context.async_fd = fds[0];
	v->context.num_comp_vectors = 4;
	v->context.abi_compat = control->legacy ? NULL : __VERBS_ABI_IS_EXTENDED;
	control->async_write = fds[1];
	note("open_device %s", d->name);
	return &v->context;
}

int ibv_close_device(struct ibv_context *ctx)
{
	int err = begin(C_CLOSE_DEVICE);

	note("close_device");
	write_late();
	if (live)
		violated("close_device with %d objects alive", live);
	close(ctx->async_fd);
	close(control->async_write);
	free(verbs_get_ctx(ctx) ? (void *)verbs_get_ctx(ctx)
				: (char *)ctx - offsetof(struct verbs_context, context));
	return err ? -1 : 0;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *a)
{
	int err = begin(C_QUERY_DEVICE);

	(void)ctx;
	memset(a, 0, sizeof *a);
	a->phys_port_cnt = control->ports ? control->ports : 2;
	strcpy(a->fw_ver, "standin 1.0");
	return err;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd;

	if (begin(C_ALLOC_PD))
		return NULL;
	pd = calloc(1, sizeof *pd);
	pd->context = ctx;
	live++;
	return pd;
}

// handle counts a parent's children, as the kernel does; a memory region adds MEMORY to the count.
int ibv_dealloc_pd(struct ibv_pd *pd)
{
	int err = begin(C_DEALLOC_PD);

	if (pd->handle) {
		violated("dealloc_pd before its %u children", pd->handle);
		return EBUSY;
	}
	live--;
	free(pd);
	return err;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	struct ibv_mr *mr;

	if (begin(C_REG_MR))
		return NULL;
	note("reg_mr length=%zu access=%d", length, access);
	mr = calloc(1, sizeof *mr);
	*mr = (struct ibv_mr){
		.context = pd->context, .pd = pd, .addr = address, .length = length, .lkey = 7
	};
	pd->handle += MEMORY;
	live++;
	return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	int err = begin(C_DEREG_MR);

	mr->pd->handle -= MEMORY;
	live--;
	free(mr);
	return err;
}

// The GID table of the tests has four entries, which end in 1 to 4.
int ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	int err = begin(C_QUERY_GID);

	(void)ctx;
	note("query_gid port=%d index=%d", port, index);
	if (err)
		return -1;
	*gid = (union ibv_gid){ .raw = { 0xfe, 0x80, [15] = index + 1 } };
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a)
{
	struct ibv_ah *ah;

	if (begin(C_CREATE_AH) || refused(C_CREATE_AH, control->provider.refuse_ah))
		return NULL;
	note("create_ah port=%d global=%d sgid_index=%d hop_limit=%d dlid=%d gid_end=%d flow_label=%#x "
	     "traffic_class=%d sl=%d",
	     a->port_num, a->is_global, a->grh.sgid_index, a->grh.hop_limit, a->dlid, a->grh.dgid.raw[15],
	     a->grh.flow_label, a->grh.traffic_class, a->sl);
	ah = calloc(1, sizeof *ah);
	ah->context = pd->context;
	ah->pd = pd;
	pd->handle++;
	live++;
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	int err = begin(C_DESTROY_AH);

	pthread_mutex_lock(&lock);
	note("destroy_ah");
	if (in_use(ah))
		violated("destroy_ah before the datagrams that use it are sent");
	pthread_mutex_unlock(&lock);
	ah->pd->handle--;
	live--;
	free(ah);
	return err;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct standin_channel *s;
	int fds[2], i;

	if (begin(C_CREATE_COMP_CHANNEL))
		return NULL;
	s = calloc(1, sizeof *s);
	if (!s || pipe2(fds, O_CLOEXEC))
		abort();
	s->channel.context = ctx;
	s->channel.fd = fds[0];
	pthread_mutex_lock(&lock);
	s->write_end = control->channel_write = fds[1];
	for (i = 0; i < 16 && channels[i]; i++)
		;
	if (i < 16)
		channels[i] = &s->channel;
	live++;
	pthread_mutex_unlock(&lock);
	return &s->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *c)
{
	int err = begin(C_DESTROY_COMP_CHANNEL), i;

	if (c->refcnt) {
		violated("destroy_comp_channel before its %d queues", c->refcnt);
		return EBUSY;
	}
	pthread_mutex_lock(&lock);
	for (i = 0; i < 16; i++)
		if (channels[i] == c)
			channels[i] = NULL;
	close(c->fd);
	if (((struct standin_channel *)c)->write_end >= 0)
		close(((struct standin_channel *)c)->write_end);
	live--;
	pthread_mutex_unlock(&lock);
	free(c);
	return err;
}
