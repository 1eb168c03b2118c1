#!/bin/sh
# $1 is "configure" for dpkg, and for rpm how many versions are there now.
set -eu
snippet=/etc/telegraf/telegraf.d/rdma_events.conf

# What a removal of the deb has put aside.
if [ -e "$snippet.disabled" ] && [ ! -e "$snippet" ]; then
	mv "$snippet.disabled" "$snippet"
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
# A plugin that runs goes on with the files it has opened, so nobody is cut off.
echo "rdma-events: restart Telegraf to run this version; rdma-events doctor says whether it can work"
