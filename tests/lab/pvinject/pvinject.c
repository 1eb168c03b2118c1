// SPDX-License-Identifier: GPL-2.0
/*
 * Test only: does to a vmw_pvrdma device what its hypervisor may do, and QEMU's device model never does.
 *
 *   echo "DEVICE TYPE PORT COUNT" > /sys/kernel/debug/pvinject      an event of a port or of the device
 *   echo "DEVICE cq ID TYPE COUNT" > /sys/kernel/debug/pvinject     an event of one completion queue
 *   echo "DEVICE qp ID TYPE COUNT" > /sys/kernel/debug/pvinject     an event of one queue pair
 *   echo "DEVICE interrupt N off" > /sys/kernel/debug/pvinject      interrupt N is held back until "on"
 *
 * TYPE is a PVRDMA_EVENT_* number, and ID is the number that "rdma resource show KIND" prints. An event is put into the
 * ring that the driver shares with its device, and the device's interrupt for events is raised, so that all from the
 * interrupt handler on is the driver's own work. The write returns after every event has reached the event queues.
 *
 * Interrupt 0 says that a command has been answered, 1 that there is an event, 2 that there is a completion.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <rdma/restrack.h>

/* A header of the driver, beside which this module is built. */
#include "pvrdma.h"

enum { OF_COMMANDS, OF_EVENTS, OF_COMPLETIONS };

/*
 * The driver's ring has 1536 slots and its indices are made for a power of two (pvrdma_ring.h), so that it never seems
 * full: more than 1024 events at once overwrite others, and more than 512 share slots.
 */
#define BURST 256

static struct dentry *knob;

static DEFINE_MUTEX(mutex); /* guards the rest, and lets one writer put events into a ring */
static struct pvrdma_dev *held_of;
static unsigned long held; /* a bit for each interrupt of held_of */

static unsigned int slots_of(struct pvrdma_dev *dev)
{
	return (dev->dsr->async_ring_pages.num_pages - 1) * PAGE_SIZE / sizeof(struct pvrdma_eqe);
}

/* Raises the interrupt for events and waits until the driver has taken them all. */
static int raise_and_wait(struct pvrdma_dev *dev)
{
	unsigned long limit = jiffies + 5 * HZ;
	unsigned int head;
	int err;

	err = irq_inject_interrupt(pci_irq_vector(dev->pdev, OF_EVENTS));
	if (err)
		return err;
	while (pvrdma_idx_ring_has_data(&dev->async_ring_state->rx, slots_of(dev), &head) > 0) {
		if (time_after(jiffies, limit))
			return -ETIMEDOUT;
		usleep_range(100, 1000);
	}
	synchronize_irq(pci_irq_vector(dev->pdev, OF_EVENTS));
	flush_workqueue(ib_wq); /* in which the core passes on events of ports and of the device */
	return 0;
}

static int inject(struct pvrdma_dev *dev, unsigned int type, unsigned int info, unsigned int count)
{
	struct pvrdma_ring *ring = &dev->async_ring_state->rx;
	unsigned int tail, waiting = 0;
	struct pvrdma_eqe *eqe;
	int err;

	while (count--) {
		if (waiting++ == BURST) {
			err = raise_and_wait(dev);
			if (err)
				return err;
			waiting = 1;
		}
		if (pvrdma_idx_ring_has_space(ring, slots_of(dev), &tail) <= 0)
			return -ENOSPC;
		eqe = pvrdma_page_dir_get_ptr(&dev->async_pdir, PAGE_SIZE + tail * sizeof(*eqe));
		eqe->type = type;
		eqe->info = info;
		smp_wmb(); /* the handler reads the event once the index covers it */
		pvrdma_idx_ring_inc(&ring->prod_tail, slots_of(dev));
	}
	return raise_and_wait(dev);
}

/* The device knows an object by a handle, which no interface of the kernel shows. */
static int inject_object(struct pvrdma_dev *dev, const char *kind, unsigned int id, unsigned int type,
			 unsigned int count)
{
	bool of_cq = !strcmp(kind, "cq");
	struct rdma_restrack_entry *res;
	unsigned int handle;
	int err;

	if (!of_cq && strcmp(kind, "qp"))
		return -EINVAL;
	/* The reference keeps the object until it is put. */
	res = rdma_restrack_get_byid(&dev->ib_dev, of_cq ? RDMA_RESTRACK_CQ : RDMA_RESTRACK_QP, id);
	if (IS_ERR(res))
		return PTR_ERR(res);
	if (of_cq)
		handle = to_vcq(container_of(res, struct ib_cq, res))->cq_handle;
	else
		handle = to_vqp(container_of(res, struct ib_qp, res))->qp_handle;
	err = inject(dev, type, handle, count);
	rdma_restrack_put(res);
	return err;
}

/* A device that has been bound again has other interrupts, none of which is held. */
static int hold_interrupt(struct pvrdma_dev *dev, unsigned int number, bool hold)
{
	if (number > OF_COMPLETIONS || number >= dev->nr_vectors)
		return -EINVAL;
	if (held_of != dev)
		held = 0;
	held_of = dev;
	if (test_bit(number, &held) == hold)
		return 0;
	if (hold)
		disable_irq(pci_irq_vector(dev->pdev, number));
	else
		enable_irq(pci_irq_vector(dev->pdev, number));
	change_bit(number, &held);
	return 0;
}

static int carry_out(const char *line)
{
	unsigned int type, info, count, number;
	char name[IB_DEVICE_NAME_MAX], word[4];
	struct pvrdma_dev *dev;
	struct ib_device *ib;
	int err = -EINVAL;

	BUILD_BUG_ON(sizeof(name) != 64);
	if (sscanf(line, "%63s", name) != 1)
		return -EINVAL;
	ib = ib_device_get_by_name(name, RDMA_DRIVER_VMW_PVRDMA);
	if (!ib)
		return -ENODEV;
	dev = to_vdev(ib);
	mutex_lock(&mutex);
	if (sscanf(line, "%63s interrupt %u %3s", name, &number, word) == 3) {
		if (!strcmp(word, "off") || !strcmp(word, "on"))
			err = hold_interrupt(dev, number, !strcmp(word, "off"));
	} else if (sscanf(line, "%63s %u %u %u", name, &type, &info, &count) == 4) {
		err = inject(dev, type, info, count);
	} else if (sscanf(line, "%63s %3s %u %u %u", name, word, &number, &type, &count) == 5) {
		err = inject_object(dev, word, number, type, count);
	}
	mutex_unlock(&mutex);
	ib_device_put(ib);
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

static int __init pvinject_init(void)
{
	knob = debugfs_create_file("pvinject", 0200, NULL, NULL, &knob_ops);
	return PTR_ERR_OR_ZERO(knob);
}

static void __exit pvinject_exit(void)
{
	debugfs_remove(knob);
}

module_init(pvinject_init);
module_exit(pvinject_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Test only: makes a vmw_pvrdma device raise events and withhold interrupts");
