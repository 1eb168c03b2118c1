#!/bin/sh
# $1 is "configure" or "abort-remove" with dpkg. With rpm it is the number of versions that are installed now.
set -eu
# A new file has no capabilities. If the script fails it prints why, and the installation goes on.
"${DPKG_ROOT:-}/usr/sbin/rdma-events-tracer-caps" || true
echo "rdma-events-tracer: set applications.events = true in /etc/telegraf/rdma_events.conf, and restart Telegraf"
