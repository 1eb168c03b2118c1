#!/bin/sh
# $1 is "configure" or "abort-remove" for dpkg, and for rpm how many versions there are now.
set -eu
root=${DPKG_ROOT:-}
snippet=$root/etc/telegraf/telegraf.d/rdma_events.conf

# What a removal that was given up has put aside.
if [ -e "$snippet.disabled" ] && [ ! -e "$snippet" ]; then
	mv "$snippet.disabled" "$snippet"
fi
if [ -d "$root/run/systemd/system" ]; then
	systemctl daemon-reload || echo "rdma-events: systemctl daemon-reload failed; run it before you restart Telegraf" >&2
fi
# A plugin that runs goes on with the files it has opened, so it is not cut off.
echo "rdma-events: restart Telegraf to run this version; rdma-events doctor says whether it can work"
