// SPDX-License-Identifier: GPL-2.0
/*
 * Test only: gives a network device without a link a reason for that, as drivers of hardware have one, and holds
 * the kernel's RTNL lock.
 *
 *   echo "NETDEV STATE MS" > /sys/kernel/debug/extstate  STATE is the reason; who asks for it, or for
 *                                                        the statistics, before MS from now waits until then
 *   echo "hold MS" > /sys/kernel/debug/extstate          the writer holds the lock for MS
 *
 * STATE is a number of enum ethtool_link_ext_state. The kernel asks a driver under the RTNL lock, so that who waits
 * for the reason holds up all others that need the lock, as with firmware that does not answer. A netdev keeps its
 * reason until it is deleted, so that this module must stay. Delete it before you give another netdev a reason.
 */
#include <linux/debugfs.h>
#include <linux/ethtool.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/string.h>

static struct dentry *knob;

static struct ethtool_ops ops; /* those of the netdev, but for the reason */
static unsigned int state;
static unsigned long wait_until; /* in jiffies */

static void wait(unsigned long until)
{
	unsigned long now = jiffies;

	if (time_before(now, until))
		schedule_timeout_uninterruptible(until - now);
}

static int link_ext_state(struct net_device *dev, struct ethtool_link_ext_state_info *info)
{
	if (netif_carrier_ok(dev))
		return -ENODATA;
	wait(wait_until);
	info->link_ext_state = state;
	return 0;
}

static void (*own_statistics)(struct net_device *dev, struct ethtool_stats *stats, u64 *data);

static void late_statistics(struct net_device *dev, struct ethtool_stats *stats, u64 *data)
{
	wait(wait_until);
	own_statistics(dev, stats, data);
}

/* Called under the RTNL lock. */
static void give_reason(struct net_device *dev, unsigned int reason, unsigned int ms)
{
	if (dev->ethtool_ops != &ops) {
		ops = *dev->ethtool_ops;
		ops.get_link_ext_state = link_ext_state;
		own_statistics = ops.get_ethtool_stats;
		if (own_statistics)
			ops.get_ethtool_stats = late_statistics;
		dev->ethtool_ops = &ops;
	}
	state = reason;
	wait_until = jiffies + msecs_to_jiffies(ms);
}

/* Called under the RTNL lock. */
static int carry_out(const char *line)
{
	unsigned int reason, ms;
	char name[IFNAMSIZ];
	struct net_device *dev;

	BUILD_BUG_ON(sizeof(name) != 16);
	if (sscanf(line, "hold %u", &ms) == 1) {
		wait(jiffies + msecs_to_jiffies(ms));
		return 0;
	}
	if (sscanf(line, "%15s %u %u", name, &reason, &ms) != 3)
		return -EINVAL;
	dev = __dev_get_by_name(&init_net, name);
	if (!dev)
		return -ENODEV;
	give_reason(dev, reason, ms);
	return 0;
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
	rtnl_lock();
	err = carry_out(line);
	rtnl_unlock();
	kfree(line);
	return err ?: len;
}

static const struct file_operations knob_ops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = knob_write,
	.llseek = noop_llseek,
};

static int __init extstate_init(void)
{
	knob = debugfs_create_file("extstate", 0200, NULL, NULL, &knob_ops);
	return PTR_ERR_OR_ZERO(knob);
}

module_init(extstate_init); /* and no exit: a netdev may have its operations */
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Test only: makes netdevs say why they have no link");
