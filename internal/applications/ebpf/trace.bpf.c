//go:build ignore

// SPDX-License-Identifier: (GPL-2.0 OR MIT)
//
// These programs observe how ib_uverbs handles the asynchronous events of all processes. They run at the entries and returns
// of functions that ib_uverbs calls only by pointers, which no compiler can have inlined. The functions are in
// drivers/infiniband/core/uverbs_main.c, uverbs_std_types*.c and uverbs_cmd.c.
//
// All counts are in maps. The ring has details of single events, and may lack some. The tracer reads both once a second, but
// only if board.changes has changed: a program increments that word after each change of a map or the ring.
#include "core.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define TYPES 32	      // event types; the kernel has fewer
#define STAMPS 8	      // events of one queue whose delay is measured
#define LEVELS 5	      // components of the cgroup's path
#define LEVEL 96	      // maximum bytes of a component
#define FOUND 64	      // maximum events in a queue when it is first seen
#define DESTROYED 512	      // maximum unread events of a destroyed object
#define SETTLED 1000000000ULL // ns; a read that has taken an event from the kernel's list returns sooner

// enum rdma_remove_reason and enum uverbs_default_objects of the kernel, errno and states of a task.
#define RDMA_REMOVE_DRIVER_REMOVE 2
#define UVERBS_OBJECT_CQ 3
#define UVERBS_OBJECT_QP 4
#define UVERBS_OBJECT_SRQ 5
#define UVERBS_OBJECT_WQ 12
#define DEVICE_FATAL 8

// Offsets of the condition variables in struct ibv_cq, ibv_qp, ibv_srq and ibv_wq (infiniband/verbs.h, which is public and
// therefore stable). pthread_mutex_t is larger on arm64.
#if defined(__TARGET_ARCH_x86)
#define MUTEX 40
#elif defined(__TARGET_ARCH_arm64)
#define MUTEX 48
#endif
#define COND 48
#define CQ_COND (32 + MUTEX)
#define QP_COND (64 + MUTEX)
#define SRQ_COND (32 + MUTEX)
#define WQ_COND (56 + MUTEX)

// Bit masks of event types, which the loader sets: counted types, and those of them that are errors.
const volatile u32 counted = 0;
const volatile u32 errors = 0;

// board is read by the tracer while the programs run. The tracer writes look; programs change the other words by BOARD only.
struct board {
	u64 look;	  // number of the tracer's next reading of the maps
	u64 changes;	  // changes of apps, queues, waits, others and ring; incremented last
	u64 lost_records; // records without space in the ring
	u64 lost_waits;	  // waits without space in the map
	u64 map_full;	  // processes, queues and reads without space in a map
	u64 others;	  // changes of the map others
	u64 waits;	  // entries added or changed in the map waits
};

// process identifies a process with an open device. A process with a reused PID has another start.
struct process {
	u64 start; // ns of CLOCK_BOOTTIME
	u32 tgid;
	u32 device; // index
};

struct longest {
	u64 ns;
	u64 look; // the look to which ns belongs
};

// app has the counts of a process. In arrays of two, element 1 counts errors and element 0 counts other events.
struct app {
	char device[64];
	char comm[16];
	char cgroup[LEVELS][LEVEL]; // innermost first
	u64 queued[TYPES];
	u32 found[TYPES];
	u64 read[2];
	u64 discarded[2];
	u64 skipped[2];
	u64 destroyed_unacked;
	u64 delays;
	u64 delay_sum;
	struct longest delay_max[2];
	u32 queues; // number of open queues
	u32 pad;
};

struct stamp {
	u64 element;
	u64 ns; // 0: free
};

// queue is the queue of an asynchronous event file that has or had an event.
struct queue {
	struct process process;
	u64 unread[2];
	u64 since;  // last time at which it was empty or read, CLOCK_MONOTONIC ns
	u64 newest; // time at which the last event was queued, ns
	u64 skipped[2];
	u32 next; // number of the next stamp
	u32 read; // 1 once a read has been seen to begin or end
	struct stamp stamps[STAMPS];
	u8 types[STAMPS]; // of the stamps
};

// read is a thread in read(2) of an asynchronous event file.
struct read {
	u64 queue;
	u64 buf;
};

// wait is a thread that has destroyed an object for which acknowledgements are missing.
struct wait {
	struct process process;
	u64 start; // of the thread, ns of CLOCK_BOOTTIME
	u64 ns;	   // of CLOCK_MONOTONIC
	u64 cond;  // address of the condition variable of libibverbs
	u64 uobject;
	u32 object; // UVERBS_OBJECT_*
	u32 number;
	u32 missing;
	u32 pad;
};

// record has the details of one event.
struct record {
	u64 ns;
	struct process process;
	u32 type;
	u32 number;
};

// sight is the current state of a thread that has destroyed an object.
struct sight {
	u64 argument; // first argument of its system call
	u64 switches;
	u32 tid;
	__s32 call; // number of its system call
	u32 state;
	u32 pad;
};
const struct sight *unused_sight __attribute__((unused));
const struct record *unused_record __attribute__((unused));

#define MAP(kind, name, entries, K, V) \
	struct { \
		__uint(type, BPF_MAP_TYPE_##kind); \
		__uint(max_entries, entries); \
		__type(key, K); \
		__type(value, V); \
	} name SEC(".maps")
MAP(HASH, apps, 4096, struct process, struct app);
MAP(HASH, queues, 8192, u64, struct queue); // by the address of struct ib_uverbs_event_queue
MAP(HASH, reads, 8192, u64, struct read);   // by thread and process
MAP(HASH, numbers, 4096, u32, u32);	    // of the object that a thread destroys
MAP(HASH, waits, 1024, u32, struct wait);   // by thread
MAP(ARRAY, others, 256, u32, struct app);   // by device: what found no place
// Initial values of new entries. Programs write only those members that differ for each entry.
MAP(PERCPU_ARRAY, blank_app, 1, u32, struct app);
MAP(PERCPU_ARRAY, blank_queue, 1, u32, struct queue);
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct board);
} boards SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} ring SEC(".maps");

static __always_inline void add(u64 *to, u64 n)
{
	__sync_fetch_and_add(to, n);
}

// publish increments a word that the tracer reads before it reads the maps. All earlier writes become visible before the
// word: the kernel orders only atomic operations that fetch their result (Documentation/atomic_t.txt), and the compiler
// fetches the result only if it is used.
static __always_inline void publish(u64 *word)
{
	u64 was = __sync_fetch_and_add(word, 1);
	asm volatile("" ::"r"(was));
}

// BOARD increments a word of the board.
#define BOARD(field) \
	do { \
		u32 zero_ = 0; \
		struct board *board_ = bpf_map_lookup_elem(&boards, &zero_); \
		if (board_) \
			publish(&board_->field); \
	} while (0)

static __always_inline _Bool is_counted(u32 type)
{
	return type < TYPES && counted >> type & 1;
}

static __always_inline u32 is_error(u32 type)
{
	return errors >> (type & (TYPES - 1)) & 1;
}

static __always_inline void name_levels(struct app *a, struct task_struct *leader)
{
	struct kernfs_node *kn = BPF_CORE_READ(leader, cgroups, dfl_cgrp, kn);
	for (int i = 0; i < LEVELS; i++)
		a->cgroup[i][0] = 0;
	for (int i = 0; i < LEVELS; i++) {
		if (!kn)
			return;
		bpf_probe_read_kernel_str(a->cgroup[i], LEVEL, BPF_CORE_READ(kn, name));
		if (bpf_core_field_exists(kn->parent))
			kn = BPF_CORE_READ(kn, parent);
		else
			kn = BPF_CORE_READ((struct kernfs_node___parent *)kn, __parent);
	}
}

// other returns the counts of processes without space. A caller that changes them increments board.others afterwards.
static __always_inline struct app *other(u32 device)
{
	u32 i = device < 256 ? device : 255;
	return bpf_map_lookup_elem(&others, &i);
}

// own returns the counts of the process of a context, and adds an entry if there is none. It sets p to the process.
static __always_inline struct app *own(struct ib_ucontext *context, struct process *p)
{
	struct task_struct *task = BPF_CORE_READ(context, res.task);
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	struct ib_device *device = BPF_CORE_READ(context, device);
	p->tgid = BPF_CORE_READ(task, tgid);
	p->start = BPF_CORE_READ(leader, start_boottime);
	p->device = BPF_CORE_READ(device, index);
	struct app *a = bpf_map_lookup_elem(&apps, p);
	if (a)
		return a;
	u32 zero = 0;
	struct app *blank = bpf_map_lookup_elem(&blank_app, &zero);
	if (!blank)
		return 0;
	bpf_core_read_str(blank->device, sizeof blank->device, &device->name);
	bpf_core_read_str(blank->comm, sizeof blank->comm, &leader->comm);
	name_levels(blank, leader);
	bpf_map_update_elem(&apps, p, blank, BPF_NOEXIST); // another processor may have been faster
	return bpf_map_lookup_elem(&apps, p);
}

// count_found counts the events in a queue that is seen for the first time.
static __always_inline void count_found(struct ib_uverbs_event_queue *q, struct queue *mine, struct app *a)
{
	struct list_head *head = __builtin_preserve_access_index(&q->event_list);
	struct list_head *at = BPF_CORE_READ(head, next);
	for (int i = 0; i < FOUND; i++) {
		if (!at || at == head)
			return;
		struct ib_uverbs_event *e = (void *)at - bpf_core_field_offset(struct ib_uverbs_event, list);
		u32 type = BPF_CORE_READ(e, desc.async.event_type);
		if (is_counted(type)) {
			add(&a->queued[type & (TYPES - 1)], 1);
			__sync_fetch_and_add(&a->found[type & (TYPES - 1)], 1);
			mine->unread[is_error(type)]++;
		}
		at = BPF_CORE_READ(at, next);
	}
}

// seen returns the entry of a queue, and adds one if the file has a context. It sets a and device to those of its process.
static __always_inline struct queue *seen(struct ib_uverbs_async_event_file *file, struct app **a,
					  u32 *device)
{
	u64 key = (u64)__builtin_preserve_access_index(&file->ev_queue);
	struct queue *q = bpf_map_lookup_elem(&queues, &key);
	if (q) {
		*device = q->process.device;
		*a = bpf_map_lookup_elem(&apps, &q->process);
		return q;
	}
	struct ib_ucontext *context = BPF_CORE_READ(file, uobj.context);
	if (!context)
		return 0;
	u32 zero = 0;
	struct queue *blank = bpf_map_lookup_elem(&blank_queue, &zero);
	if (!blank)
		return 0;
	*a = own(context, &blank->process);
	*device = blank->process.device;
	if (!*a) {
		BOARD(map_full);
		return 0;
	}
	blank->since = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&queues, &key, blank, BPF_NOEXIST)) {
		q = bpf_map_lookup_elem(&queues, &key);
		if (!q)
			BOARD(map_full);
		return q;
	}
	q = bpf_map_lookup_elem(&queues, &key);
	if (!q)
		return 0;
	__sync_fetch_and_add(&(*a)->queues, 1);
	count_found((void *)key, q, *a);
	return q;
}

// take decrements a queue's count of events. It returns false if the count is 0.
static __always_inline _Bool take(u64 *n)
{
	if ((__s64)__sync_fetch_and_sub(n, 1) > 0)
		return 1;
	add(n, 1);
	return 0;
}

// settle counts events as skipped that the kernel had no memory for: its list is empty, no read is under way, and unread > 0. If no read
// was ever seen, a thread has read them that was in read(2) before this program was attached.
static __always_inline void settle(struct ib_uverbs_async_event_file *file, struct queue *q, struct app *a,
				   u64 now)
{
	struct list_head *head = __builtin_preserve_access_index(&file->ev_queue.event_list);
	if (BPF_CORE_READ(head, next) != head || now - q->newest < SETTLED)
		return;
	for (int i = 0; i < 2; i++) {
		u64 n = __sync_lock_test_and_set(&q->unread[i], 0);
		if (n && q->read) {
			add(&q->skipped[i], n);
			add(&a->skipped[i], n);
		} else if (n) {
			add(&a->read[i], n);
		}
	}
}

static __always_inline void report(struct process *p, u32 type, u32 number, u64 now)
{
	struct record *r = bpf_ringbuf_reserve(&ring, sizeof *r, 0);
	if (!r) {
		BOARD(lost_records);
		return;
	}
	r->ns = now;
	r->process = *p;
	r->type = type;
	r->number = number;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP); // the tracer looks once a second
}

static __always_inline void count_queued(struct ib_uverbs_async_event_file *file, u64 element, u32 type,
					 u32 number)
{
	u32 error = is_error(type);
	struct app *a = 0;
	u32 device = 0;
	struct queue *q = seen(file, &a, &device);
	if (!q || !a) {
		if ((a = other(device))) {
			add(&a->queued[type & (TYPES - 1)], 1);
			BOARD(others);
			BOARD(lost_records);
		}
		return;
	}
	u64 now = bpf_ktime_get_ns();
	settle(file, q, a, now);
	if (!(q->unread[0] | q->unread[1]))
		q->since = now;
	q->newest = now;
	add(&a->queued[type & (TYPES - 1)], 1);
	add(&q->unread[error], 1);
	u32 i = __sync_fetch_and_add(&q->next, 1) & (STAMPS - 1);
	q->stamps[i].element = element;
	q->types[i] = type;
	q->stamps[i].ns = now;
	report(&q->process, type, number, now);
}

// on_queued is called for each event before the kernel queues it.
static __always_inline void on_queued(struct ib_uverbs_async_event_file *file, u64 element, u32 type,
				      u32 number)
{
	if (!file || !is_counted(type) || BPF_CORE_READ(file, ev_queue.is_closed))
		return;
	count_queued(file, element, type, number);
	BOARD(changes);
}

// timed returns the time at which an event was queued, and clears its stamp. It returns 0 if the time is not known. It is not
// static so that the verifier checks its loop once, and not for each iteration of another loop.
__attribute__((noinline)) u64 timed(struct queue *q, u64 element, u32 type)
{
	if (!q)
		return 0;
	u64 oldest = 0;
	u32 at = 0;
	for (u32 i = 0; i < STAMPS; i++) {
		struct stamp *s = &q->stamps[i];
		if (s->ns && s->element == element && q->types[i] == type && (!oldest || s->ns < oldest)) {
			oldest = s->ns;
			at = i;
		}
	}
	if (oldest)
		q->stamps[at & (STAMPS - 1)].ns = 0;
	return oldest;
}

static __always_inline void count_read(struct ib_uverbs_async_event_file *file, u64 element, u32 type)
{
	u32 error = is_error(type);
	u64 now = bpf_ktime_get_ns();
	if (!is_counted(type)) {
		u64 key = (u64)__builtin_preserve_access_index(&file->ev_queue);
		struct queue *q = bpf_map_lookup_elem(&queues, &key);
		if (q)
			q->since = now;
		return;
	}
	struct app *a = 0;
	u32 device = 0;
	struct queue *q = seen(file, &a, &device);
	if (!q || !a) {
		if ((a = other(device))) {
			add(&a->read[error], 1);
			BOARD(others);
		}
		return;
	}
	q->since = now;
	q->read = 1;
	if (!take(&q->unread[error])) {
		if (take(&q->skipped[error])) { // it was not skipped, its read was late
			__sync_fetch_and_sub(&a->skipped[error], 1);
		} else { // it was there before us
			add(&a->queued[type & (TYPES - 1)], 1);
			__sync_fetch_and_add(&a->found[type & (TYPES - 1)], 1);
		}
	}
	add(&a->read[error], 1);
	u64 queued = timed(q, element, type);
	if (!queued)
		return;
	u64 delay = now - queued;
	add(&a->delay_sum, delay);
	add(&a->delays, 1);
	u32 zero = 0;
	struct board *b = bpf_map_lookup_elem(&boards, &zero);
	if (!b)
		return;
	u64 look = b->look;
	struct longest *max = &a->delay_max[look & 1];
	if (max->look != look) {
		max->look = look;
		max->ns = 0;
	}
	if (delay > max->ns)
		max->ns = delay;
}

static __always_inline void on_read(struct ib_uverbs_async_event_file *file, u64 buf)
{
	struct ib_uverbs_async_event_desc desc = {};
	if (bpf_probe_read_user(&desc, sizeof desc, (void *)buf))
		return;
	count_read(file, desc.element, desc.event_type);
	BOARD(changes);
}

#define UEVENT(o) __builtin_preserve_access_index(&(o)->uevent)

static __always_inline void on_object(struct ib_event *event, struct ib_uevent_object *u, u32 number)
{
	if (u)
		on_queued(BPF_CORE_READ(u, event_file), BPF_CORE_READ(u, uobject.user_handle),
			  BPF_CORE_READ(event, event), number);
}

SEC("kprobe/ib_uverbs_cq_event_handler")
int BPF_KPROBE(cq_event, struct ib_event *event)
{
	struct ib_cq *cq = BPF_CORE_READ(event, element.cq);
	struct ib_ucq_object *u = BPF_CORE_READ(cq, uobject);
	on_object(event, u ? UEVENT(u) : 0, BPF_CORE_READ(cq, res.id));
	return 0;
}

SEC("kprobe/ib_uverbs_qp_event_handler")
int BPF_KPROBE(qp_event, struct ib_event *event)
{
	struct ib_qp *qp = BPF_CORE_READ(event, element.qp);
	struct ib_uqp_object *u = BPF_CORE_READ(qp, uobject);
	on_object(event, u ? UEVENT(u) : 0, BPF_CORE_READ(qp, qp_num));
	return 0;
}

SEC("kprobe/ib_uverbs_srq_event_handler")
int BPF_KPROBE(srq_event, struct ib_event *event)
{
	struct ib_srq *srq = BPF_CORE_READ(event, element.srq);
	struct ib_usrq_object *u = BPF_CORE_READ(srq, uobject);
	u32 number = bpf_core_field_exists(srq->res) ? BPF_CORE_READ(srq, res.id) : 0;
	on_object(event, u ? UEVENT(u) : 0, number);
	return 0;
}

SEC("kprobe/ib_uverbs_wq_event_handler")
int BPF_KPROBE(wq_event, struct ib_event *event)
{
	struct ib_wq *wq = BPF_CORE_READ(event, element.wq);
	struct ib_uwq_object *u = BPF_CORE_READ(wq, uobject);
	on_object(event, u ? UEVENT(u) : 0, BPF_CORE_READ(wq, wq_num));
	return 0;
}

SEC("kprobe/ib_uverbs_event_handler")
int BPF_KPROBE(device_event, struct ib_event_handler *handler, struct ib_event *event)
{
	u32 type = BPF_CORE_READ(event, event);
	if (type == DEVICE_FATAL)
		on_queued((void *)handler -
				  bpf_core_field_offset(struct ib_uverbs_async_event_file, event_handler),
			  0, type, 0);
	return 0;
}

// The DEVICE_FATAL of a driver's removal is not passed to an event handler.
SEC("kprobe/uverbs_async_event_destroy_uobj")
int BPF_KPROBE(removed_event, struct ib_uobject *uobj, int why)
{
	if (why == RDMA_REMOVE_DRIVER_REMOVE)
		on_queued((void *)uobj, 0, DEVICE_FATAL, 0); // the file begins with its uobject
	return 0;
}

// reconcile is called when a thread begins to read. Events missing in the kernel's list were read if the return of a read was not seen.
// That of the thread's last read was not, if missed is set: the kernel follows only a limited number of concurrent calls (maxactive in
// Documentation/trace/kprobes.rst). And it follows no call that has begun before the program is attached.
static __always_inline void reconcile(struct ib_uverbs_async_event_file *file, _Bool missed)
{
	u64 key = (u64)__builtin_preserve_access_index(&file->ev_queue);
	struct queue *q = bpf_map_lookup_elem(&queues, &key);
	if (!q)
		return;
	missed |= !q->read;
	q->read = 1;
	struct list_head *head = __builtin_preserve_access_index(&file->ev_queue.event_list);
	if (!missed || BPF_CORE_READ(head, next) != head)
		return;
	struct app *a = bpf_map_lookup_elem(&apps, &q->process);
	if (!a)
		return;
	for (int i = 0; i < 2; i++)
		add(&a->read[i], __sync_lock_test_and_set(&q->unread[i], 0));
	q->since = bpf_ktime_get_ns();
	BOARD(changes);
}

SEC("kprobe/ib_uverbs_async_event_read")
int BPF_KPROBE(read_begins, struct file *filp, char *buf)
{
	u64 id = bpf_get_current_pid_tgid();
	reconcile(BPF_CORE_READ(filp, private_data), bpf_map_lookup_elem(&reads, &id) != 0);
	struct read r = { .queue = (u64)BPF_CORE_READ(filp, private_data), .buf = (u64)buf };
	if (bpf_map_update_elem(&reads, &id, &r, BPF_ANY))
		BOARD(map_full); // what it reads stays unread, and seems skipped later
	return 0;
}

SEC("kretprobe/ib_uverbs_async_event_read")
int BPF_KRETPROBE(read_ends, long got)
{
	u64 id = bpf_get_current_pid_tgid();
	struct read *r = bpf_map_lookup_elem(&reads, &id);
	if (!r)
		return 0;
	if (got > 0)
		on_read((void *)r->queue, r->buf);
	bpf_map_delete_elem(&reads, &id);
	return 0;
}

static __always_inline void on_closed(struct ib_uverbs_async_event_file *file)
{
	u64 key = (u64)__builtin_preserve_access_index(&file->ev_queue);
	struct queue *q = bpf_map_lookup_elem(&queues, &key);
	if (!q)
		return;
	struct app *a = bpf_map_lookup_elem(&apps, &q->process);
	if (a) {
		for (int i = 0; i < 2; i++)
			add(&a->discarded[i], q->unread[i]);
		__sync_fetch_and_sub(&a->queues, 1);
	}
	bpf_map_delete_elem(&queues, &key);
	BOARD(changes);
}

SEC("kprobe/uverbs_async_event_release")
int BPF_KPROBE(closed, void *inode, struct file *filp)
{
	struct ib_uverbs_async_event_file *file = BPF_CORE_READ(filp, private_data);
	if (file)
		on_closed(file);
	return 0;
}

// Since Linux 7.3 the kernel calls this function instead of uverbs_async_event_release.
SEC("kprobe/uverbs_async_event_free_event_queue")
int BPF_KPROBE(freed, struct ib_uobject *uobj)
{
	on_closed((void *)uobj);
	return 0;
}

static __always_inline void remember(u32 number)
{
	u32 tid = bpf_get_current_pid_tgid();
	bpf_map_update_elem(&numbers, &tid, &number, BPF_ANY); // without room the number is 0
}

// The object no longer exists when its release is seen, so its number is read before.
SEC("kprobe/uverbs_free_cq")
int BPF_KPROBE(cq_goes, struct ib_uobject *uobj)
{
	struct ib_cq *cq = BPF_CORE_READ(uobj, object);
	remember(BPF_CORE_READ(cq, res.id));
	return 0;
}

SEC("kprobe/uverbs_free_qp")
int BPF_KPROBE(qp_goes, struct ib_uobject *uobj)
{
	struct ib_qp *qp = BPF_CORE_READ(uobj, object);
	remember(BPF_CORE_READ(qp, qp_num));
	return 0;
}

SEC("kprobe/uverbs_free_srq")
int BPF_KPROBE(srq_goes, struct ib_uobject *uobj)
{
	struct ib_srq *srq = BPF_CORE_READ(uobj, object);
	remember(bpf_core_field_exists(srq->res) ? BPF_CORE_READ(srq, res.id) : 0);
	return 0;
}

SEC("kprobe/uverbs_free_wq")
int BPF_KPROBE(wq_goes, struct ib_uobject *uobj)
{
	struct ib_wq *wq = BPF_CORE_READ(uobj, object);
	remember(BPF_CORE_READ(wq, wq_num));
	return 0;
}

// missing returns the number of missing acknowledgements of an object. reported is the kernel's count of read events. The
// application's count of acknowledged events is at address in its memory. A process that is ending has no memory any more,
// and a process without libibverbs has other data there.
static __always_inline u32 missing(u32 reported, u64 address)
{
	u32 acked = 0;
	if (!reported || bpf_probe_read_user(&acked, sizeof acked, (void *)address))
		return 0;
	u32 n = reported - acked;
	return n <= reported ? n : 0;
}

static __always_inline void add_wait(struct ib_uobject *uobj, u32 object, u64 cond, u32 n)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct wait *was = bpf_map_lookup_elem(&waits, &tid);
	if (was && was->uobject == (u64)uobj) { // a completion queue, which has two counts
		was->missing += n;
		BOARD(waits);
		return;
	}
	struct wait w = {};
	struct ib_ucontext *context = BPF_CORE_READ(uobj, context);
	struct app *a = own(context, &w.process);
	if (a) {
		add(&a->destroyed_unacked, 1);
	} else if ((a = other(w.process.device))) {
		add(&a->destroyed_unacked, 1);
		BOARD(others);
	}
	struct task_struct *task = (void *)bpf_get_current_task();
	u32 *number = bpf_map_lookup_elem(&numbers, &tid);
	w.start = BPF_CORE_READ(task, start_boottime);
	w.ns = bpf_ktime_get_ns();
	w.cond = cond;
	w.uobject = (u64)uobj;
	w.object = object;
	w.number = number ? *number : 0;
	w.missing = n;
	if (bpf_map_update_elem(&waits, &tid, &w, BPF_ANY))
		BOARD(lost_waits);
	else
		BOARD(waits);
}

// on_wait is called when an object that lacks acknowledgements is destroyed.
static __always_inline void on_wait(struct ib_uobject *uobj, u32 object, u64 cond, u32 n)
{
	add_wait(uobj, object, cond, n);
	BOARD(changes);
}

SEC("kprobe/ib_uverbs_release_ucq")
int BPF_KPROBE(cq_gone, void *file, struct ib_ucq_object *u)
{
	struct ib_uobject *uobj = __builtin_preserve_access_index(&u->uevent.uobject);
	u64 handle = BPF_CORE_READ(uobj, user_handle);
	u32 tid = bpf_get_current_pid_tgid();
	bpf_map_delete_elem(&waits, &tid); // it does not wait for the one before
	u32 n = missing(BPF_CORE_READ(u, comp_events_reported), handle + CQ_COND + COND);
	if (n)
		on_wait(uobj, UVERBS_OBJECT_CQ, handle + CQ_COND, n);
	return 0;
}

// count_discarded counts the events of an object's list as discarded.
static __always_inline void count_discarded(struct ib_uverbs_async_event_file *file, struct list_head *head)
{
	struct list_head *at = BPF_CORE_READ(head, next);
	struct app *a = 0;
	u32 device = 0;
	struct queue *q = seen(file, &a, &device);
	if (!q || !a)
		return;
	for (int i = 0; i < DESTROYED; i++) {
		if (!at || at == head)
			return;
		struct ib_uverbs_event *e =
			(void *)at - bpf_core_field_offset(struct ib_uverbs_event, obj_list);
		u32 type = BPF_CORE_READ(e, desc.async.event_type);
		if (is_counted(type)) {
			take(&q->unread[is_error(type)]);
			add(&a->discarded[is_error(type)], 1);
			timed(q, BPF_CORE_READ(e, desc.async.element), type);
		}
		at = BPF_CORE_READ(at, next);
	}
}

// discard counts the unread events of a destroyed object as discarded.
static __always_inline void discard(struct ib_uevent_object *u)
{
	struct ib_uverbs_async_event_file *file = BPF_CORE_READ(u, event_file);
	struct list_head *head = __builtin_preserve_access_index(&u->event_list);
	struct list_head *first = BPF_CORE_READ(head, next);
	if (!file || !first || first == head)
		return;
	count_discarded(file, head);
	BOARD(changes);
}

SEC("kprobe/ib_uverbs_release_uevent")
int BPF_KPROBE(object_gone, struct ib_uevent_object *u)
{
	discard(u);
	struct ib_uobject *uobj = __builtin_preserve_access_index(&u->uobject);
	u64 handle = BPF_CORE_READ(uobj, user_handle);
	u32 object = BPF_CORE_READ(uobj, uapi_object, id);
	u32 reported = BPF_CORE_READ(u, events_reported);
	u32 tid = bpf_get_current_pid_tgid();
	u64 cond = handle, count;
	switch (object) {
	case UVERBS_OBJECT_CQ:
		cond += CQ_COND;
		count = cond + COND + 4; // that of completion events is before it
		break;
	case UVERBS_OBJECT_QP:
		cond += QP_COND;
		count = cond + COND;
		break;
	case UVERBS_OBJECT_SRQ:
		cond += SRQ_COND;
		count = cond + COND;
		break;
	case UVERBS_OBJECT_WQ:
		cond += WQ_COND;
		count = cond + COND;
		break;
	default: return 0;
	}
	if (object != UVERBS_OBJECT_CQ) // else cq_gone has done it
		bpf_map_delete_elem(&waits, &tid);
	u32 n = missing(reported, count);
	if (n)
		on_wait(uobj, object, cond, n);
	bpf_map_delete_elem(&numbers, &tid);
	return 0;
}

// sights writes a struct sight for each thread that has an entry in waits and is still the same thread.
SEC("iter/task")
int sights(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	if (!task)
		return 0;
	u32 tid = BPF_CORE_READ(task, pid);
	struct wait *w = bpf_map_lookup_elem(&waits, &tid);
	if (!w || w->start != BPF_CORE_READ(task, start_boottime))
		return 0;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	struct sight s = {
		.tid = tid,
		.state = BPF_CORE_READ(task, __state),
		.switches = BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw),
#if defined(__TARGET_ARCH_x86)
		.call = BPF_CORE_READ(regs, orig_ax),
		.argument = BPF_CORE_READ(regs, di),
#elif defined(__TARGET_ARCH_arm64)
		.call = BPF_CORE_READ(regs, syscallno),
		.argument = BPF_CORE_READ(regs, orig_x0),
#endif
	};
	bpf_seq_write(ctx->meta->seq, &s, sizeof s);
	return 0;
}
