#!/bin/sh
# $1 is "remove", "purge" or "upgrade" for dpkg, and for rpm how many versions are left.
set -eu
if [ "${1:-}" = purge ]; then
	rm -f /etc/telegraf/telegraf.d/rdma_events.conf.disabled
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
