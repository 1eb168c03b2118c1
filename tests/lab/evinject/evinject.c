// SPDX-License-Identifier: GPL-2.0
/*
 * Test only: makes a real RDMA device raise any event, or leave queries of its ports unanswered.
 *
 *   echo "DEVICE TYPE PORT COUNT" > /sys/kernel/debug/rdma_evinject        a port or device event
 *   echo "DEVICE FIRST-LAST PORT COUNT" > /sys/kernel/debug/rdma_evinject  COUNT of each of these types, in turn
 *   echo "DEVICE KIND ID TYPE COUNT" > /sys/kernel/debug/rdma_evinject     an event of one object
 *   echo "DEVICE cqc ID 0 COUNT" > /sys/kernel/debug/rdma_evinject         a completion event without a completion
 *   echo "DEVICE hang MS" > /sys/kernel/debug/rdma_evinject                a query of a port hangs until MS from now
 *
 * TYPE is an IB_EVENT_* number. A port or device event takes the kernel's own dispatch path to all open
 * contexts. KIND is qp, cq or srq, and ID is the number that "rdma resource show KIND" prints. An event of an
 * object is passed to the handler that a driver calls, and reaches the context that owns the object. The write
 * returns after every event has reached the event queues, so that a reader may rely on the number.
 *
 * A query that hangs waits as for a command that firmware does not answer: uninterruptibly, in the driver's
 * query_port. Only queries of processes hang, since the core's own queries would hold up events. hang 0 gives
 * the device its own query_port back; do that before the device or this module goes.
 */
#include <linux/ctype.h>
#include <linux/debugfs.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/restrack.h>

/*
 * ib_dispatch_event() allocates one work item per event with GFP_ATOMIC. It drops the event without a message
 * when there is no memory. At most this many events are in flight, so that COUNT is right in a small guest too.
 */
#define BURST 256

/* Far above the event types of any kernel. */
#define MAX_TYPE 65535

static struct dentry *knob;

/*
 * Object events carry a pointer where other events carry a port number. If they were dispatched with a number,
 * the kernel or libibverbs would dereference it.
 */
static bool carries_object(unsigned int type)
{
	switch (type) {
	case IB_EVENT_CQ_ERR ... IB_EVENT_PATH_MIG_ERR:
	case IB_EVENT_SRQ_ERR:
	case IB_EVENT_SRQ_LIMIT_REACHED:
	case IB_EVENT_QP_LAST_WQE_REACHED:
	case IB_EVENT_WQ_FATAL: return true;
	default: return false;
	}
}

static int check_event(struct ib_device *dev, unsigned int type, unsigned int port)
{
	if (type > MAX_TYPE)
		return -EINVAL;
	if (carries_object(type))
		return -EINVAL;
	/* The core does not pass this event on. Users only get events of address changes. */
	if (type == IB_EVENT_GID_CHANGE)
		return -EOPNOTSUPP;
	if (type <= IB_EVENT_CLIENT_REREGISTER && type != IB_EVENT_DEVICE_FATAL &&
	    !rdma_is_port_valid(dev, port))
		return -EINVAL;
	return 0;
}

static int check_events(struct ib_device *dev, unsigned int first, unsigned int last, unsigned int port)
{
	int err = first > last ? -EINVAL : 0;

	for (; first <= last && !err; first++)
		err = check_event(dev, first, port);
	return err;
}

/* Dispatches each type from first to last count times, in turn. */
static int dispatch(struct ib_device *dev, unsigned int first, unsigned int last, unsigned int port,
		    unsigned int count)
{
	struct ib_event event = {
		.device = dev,
		.event = first,
		.element.port_num = port,
	};
	u64 left = (u64)count * (last - first + 1);
	int err = 0;

	while (left && !err) {
		unsigned int burst = min_t(u64, left, BURST);

		left -= burst;
		while (burst--) {
			ib_dispatch_event(&event);
			event.event = event.event == last ? first : event.event + 1;
		}
		flush_workqueue(ib_wq);
		cond_resched();
		if (left && signal_pending(current))
			err = -EINTR;
	}
	return err;
}

static const struct {
	const char *kind;
	enum rdma_restrack_type type;
	u64 events; /* a bit mask */
} kinds[] = {
	{ "cq", RDMA_RESTRACK_CQ, BIT(IB_EVENT_CQ_ERR) },
	{ "cqc", RDMA_RESTRACK_CQ, BIT(0) },
	{ "qp", RDMA_RESTRACK_QP,
	  BIT(IB_EVENT_QP_FATAL) | BIT(IB_EVENT_QP_REQ_ERR) | BIT(IB_EVENT_QP_ACCESS_ERR) |
		  BIT(IB_EVENT_COMM_EST) | BIT(IB_EVENT_SQ_DRAINED) | BIT(IB_EVENT_PATH_MIG) |
		  BIT(IB_EVENT_PATH_MIG_ERR) | BIT(IB_EVENT_QP_LAST_WQE_REACHED) },
	{ "srq", RDMA_RESTRACK_SRQ, BIT(IB_EVENT_SRQ_ERR) | BIT(IB_EVENT_SRQ_LIMIT_REACHED) },
};

/* Drivers call an object's handler only if there is one; objects of user space always have one. */
static int hand_over(struct rdma_restrack_entry *res, struct ib_event *event)
{
	struct ib_cq *cq = container_of(res, struct ib_cq, res);
	struct ib_qp *qp = container_of(res, struct ib_qp, res);
	struct ib_srq *srq = container_of(res, struct ib_srq, res);

	switch (res->type) {
	case RDMA_RESTRACK_CQ:
		event->element.cq = cq;
		if (!cq->event_handler)
			return -EOPNOTSUPP;
		cq->event_handler(event, cq->cq_context);
		return 0;
	case RDMA_RESTRACK_QP:
		event->element.qp = qp;
		if (!qp->event_handler)
			return -EOPNOTSUPP;
		qp->event_handler(event, qp->qp_context);
		return 0;
	default:
		event->element.srq = srq;
		if (!srq->event_handler)
			return -EOPNOTSUPP;
		srq->event_handler(event, srq->srq_context);
		return 0;
	}
}

static int complete_cq(struct rdma_restrack_entry *res)
{
	struct ib_cq *cq = container_of(res, struct ib_cq, res);

	if (!cq->comp_handler)
		return -EOPNOTSUPP;
	cq->comp_handler(cq, cq->cq_context);
	return 0;
}

static int deliver(struct ib_device *dev, const char *kind, unsigned int id, unsigned int type,
		   unsigned int count)
{
	struct ib_event event = { .device = dev, .event = type };
	struct rdma_restrack_entry *res;
	int i, err = 0;

	for (i = 0; i < ARRAY_SIZE(kinds) && strcmp(kinds[i].kind, kind); i++)
		;
	if (i == ARRAY_SIZE(kinds) || type >= 64 || !(kinds[i].events & BIT_ULL(type)))
		return -EINVAL;
	/* The reference keeps the object until it is put. */
	res = rdma_restrack_get_byid(dev, kinds[i].type, id);
	if (IS_ERR(res))
		return PTR_ERR(res);
	while (count-- && !err)
		err = strcmp(kind, "cqc") ? hand_over(res, &event) : complete_cq(res);
	rdma_restrack_put(res);
	return err;
}

static int (*own_query_port)(struct ib_device *dev, u32 port, struct ib_port_attr *attr);
static unsigned long hang_until; /* in jiffies */

static int late_query_port(struct ib_device *dev, u32 port, struct ib_port_attr *attr)
{
	int (*query)(struct ib_device *, u32, struct ib_port_attr *) = own_query_port;
	unsigned long now = jiffies, until = READ_ONCE(hang_until);

	if (current->mm && time_before(now, until))
		schedule_timeout_uninterruptible(until - now);
	return query(dev, port, attr); /* meanwhile a write may have forgotten it */
}

static int hang(struct ib_device *dev, unsigned int ms)
{
	bool replaced = dev->ops.query_port == late_query_port;

	if (own_query_port && !replaced)
		return -EBUSY; /* another device hangs */
	WRITE_ONCE(hang_until, jiffies + msecs_to_jiffies(ms));
	if (ms && !replaced) {
		own_query_port = dev->ops.query_port;
		dev->ops.query_port = late_query_port;
	} else if (!ms && replaced) {
		dev->ops.query_port = own_query_port;
		own_query_port = NULL;
	}
	return 0;
}

static int carry_out(const char *line)
{
	unsigned int type, last, port, count, id, ms;
	char name[IB_DEVICE_NAME_MAX], kind[4];
	struct ib_device *dev;
	bool object, hangs;
	int err;

	BUILD_BUG_ON(sizeof(name) != 64);
	/* sscanf splits a long TYPE into a kind and an ID. A kind begins with a letter. */
	object = sscanf(line, "%63s %3s %u %u %u", name, kind, &id, &type, &count) == 5 && isalpha(kind[0]);
	hangs = !object && sscanf(line, "%63s hang %u", name, &ms) == 2;
	if (!object && !hangs && sscanf(line, "%63s %u-%u %u %u", name, &type, &last, &port, &count) != 5) {
		if (sscanf(line, "%63s %u %u %u", name, &type, &port, &count) != 4)
			return -EINVAL;
		last = type;
	}
	dev = ib_device_get_by_name(name, RDMA_DRIVER_UNKNOWN);
	if (!dev)
		return -ENODEV;
	if (hangs) {
		err = hang(dev, ms);
	} else if (object) {
		err = deliver(dev, kind, id, type, count);
	} else {
		err = check_events(dev, type, last, port);
		if (!err)
			err = dispatch(dev, type, last, port, count);
	}
	ib_device_put(dev);
	return err;
}

static ssize_t knob_write(struct file *file, const char __user *user, size_t len, loff_t *pos)
{
	char *line;
	int err;

	if (len > PAGE_SIZE)
		return -E2BIG;
	line = memdup_user_nul(user, len);
	if (IS_ERR(line))
		return PTR_ERR(line);
	err = carry_out(line);
	kfree(line);
	return err ?: len;
}

static const struct file_operations knob_ops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = knob_write,
	.llseek = noop_llseek,
};

static int __init evinject_init(void)
{
	knob = debugfs_create_file("rdma_evinject", 0200, NULL, NULL, &knob_ops);
	return PTR_ERR_OR_ZERO(knob);
}

static void __exit evinject_exit(void)
{
	debugfs_remove(knob);
}

module_init(evinject_init);
module_exit(evinject_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Test only: makes RDMA devices say events");
