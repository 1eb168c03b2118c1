#!/bin/sh
# $1 is "configure" or "abort-remove" with dpkg. With rpm it is the number of versions that are installed now.
set -eu
root=${DPKG_ROOT:-}
snippet=$root/etc/telegraf/telegraf.d/rdma_events.conf

# Restore the snippet that an aborted removal has put aside.
if [ -e "$snippet.disabled" ] && [ ! -e "$snippet" ]; then
	mv "$snippet.disabled" "$snippet"
fi
if [ -d "$root/run/systemd/system" ]; then
	systemctl daemon-reload || echo "rdma-events: systemctl daemon-reload failed; run it before you restart Telegraf" >&2
fi
# The running plugin keeps the files that it has opened, so Telegraf is not restarted here.
echo "rdma-events: restart Telegraf to run this version; rdma-events doctor says whether it can work"
