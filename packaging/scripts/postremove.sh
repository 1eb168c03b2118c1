#!/bin/sh
# $1 is "remove", "purge", "upgrade" or "abort-install" with dpkg. With rpm it is the number of versions that are left.
set -eu
root=${DPKG_ROOT:-}
snippet=$root/etc/telegraf/telegraf.d/rdma_events.conf
dropin=$root/etc/systemd/system/telegraf.service.d/00-rdma_events.conf

case ${1:-} in
abort-install) # preinstall.sh has restored the snippet, but the program was not installed
	if [ -e "$snippet" ] && [ ! -e "$root/usr/bin/rdma-events" ]; then
		mv "$snippet" "$snippet.disabled"
	fi
	;;
purge | 0)
	rm -f "$snippet.disabled"
	if [ "$1" = purge ]; then # rpm has no purge, and records outlive a package that is put back
		rm -rf "$root/var/lib/rdma_events"
	fi
	if [ "$(readlink "$dropin" || true)" = rdma_events.conf ]; then
		rm "$dropin" # the link that preinstall.sh has created
	fi
	;;
esac
if [ -d "$root/run/systemd/system" ]; then
	systemctl daemon-reload || echo "rdma-events: systemctl daemon-reload failed; run it before you restart Telegraf" >&2
fi
