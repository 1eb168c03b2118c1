#!/bin/sh
# $1 is "remove", "purge", "upgrade" or "abort-install" for dpkg, and for rpm how many versions are left.
set -eu
root=${DPKG_ROOT:-}
snippet=$root/etc/telegraf/telegraf.d/rdma_events.conf
dropin=$root/etc/systemd/system/telegraf.service.d/00-rdma_events.conf

case ${1:-} in
abort-install) # the snippet is back, and its program did not come
	if [ -e "$snippet" ] && [ ! -e "$root/usr/bin/rdma-events" ]; then
		mv "$snippet" "$snippet.disabled"
	fi
	;;
purge | 0)
	rm -f "$snippet.disabled"
	if [ "$(readlink "$dropin" || true)" = rdma_events.conf ]; then
		rm "$dropin" # the link that preinstall.sh has made
	fi
	;;
esac
if [ -d "$root/run/systemd/system" ]; then
	systemctl daemon-reload || echo "rdma-events: systemctl daemon-reload failed; run it before you restart Telegraf" >&2
fi
