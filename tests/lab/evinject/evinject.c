// SPDX-License-Identifier: GPL-2.0
/*
 * Test only: makes a real RDMA device say any port or device event, through the kernel's own dispatch path.
 *
 *   echo "DEVICE TYPE PORT COUNT" > /sys/kernel/debug/rdma_evinject
 *
 * TYPE is an IB_EVENT_* number. The write returns after every event has reached the event queues of all
 * open contexts, so that a reader may count on the number.
 */
#include <linux/debugfs.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

/*
 * ib_dispatch_event() allocates one work item per event with GFP_ATOMIC and drops the event, saying nothing,
 * when there is no memory. Only so many are left in flight, so that the count holds in a small guest too.
 */
#define BURST 256

static struct dentry *knob;

/*
 * Object events carry a pointer where the others carry a port number: dispatched with a number, they make
 * the kernel or libibverbs follow it.
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
	if (carries_object(type))
		return -EINVAL;
	/* The core keeps this one for itself; users are told of address changes only. */
	if (type == IB_EVENT_GID_CHANGE)
		return -EOPNOTSUPP;
	if (type <= IB_EVENT_CLIENT_REREGISTER && type != IB_EVENT_DEVICE_FATAL &&
	    !rdma_is_port_valid(dev, port))
		return -EINVAL;
	return 0;
}

static int dispatch(struct ib_device *dev, unsigned int type, unsigned int port, unsigned int count)
{
	struct ib_event event = {
		.device = dev,
		.event = type,
		.element.port_num = port,
	};
	int err = 0;

	while (count && !err) {
		unsigned int burst = min_t(unsigned int, count, BURST);

		count -= burst;
		while (burst--)
			ib_dispatch_event(&event);
		flush_workqueue(ib_wq);
		cond_resched();
		if (count && signal_pending(current))
			err = -EINTR;
	}
	return err;
}

static ssize_t knob_write(struct file *file, const char __user *user, size_t len, loff_t *pos)
{
	char name[IB_DEVICE_NAME_MAX];
	unsigned int type, port, count;
	struct ib_device *dev;
	char *line;
	int fields, err;

	if (len > PAGE_SIZE)
		return -E2BIG;
	line = memdup_user_nul(user, len);
	if (IS_ERR(line))
		return PTR_ERR(line);
	BUILD_BUG_ON(sizeof(name) != 64);
	fields = sscanf(line, "%63s %u %u %u", name, &type, &port, &count);
	kfree(line);
	if (fields != 4)
		return -EINVAL;

	dev = ib_device_get_by_name(name, RDMA_DRIVER_UNKNOWN);
	if (!dev)
		return -ENODEV;
	err = check_event(dev, type, port);
	if (!err)
		err = dispatch(dev, type, port, count);
	ib_device_put(dev);
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
MODULE_DESCRIPTION("Test only: dispatches RDMA port and device events");
