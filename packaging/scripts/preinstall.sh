#!/bin/sh
# $1 is "install" or "upgrade" with dpkg. With rpm it is the number of versions that will be installed.
set -eu
root=${DPKG_ROOT:-}
snippet=$root/etc/telegraf/telegraf.d/rdma_events.conf
units=systemd/system/telegraf.service.d
own=$root/etc/$units

# Restore the snippet that a removal of the deb has put aside. This has to happen
# before dpkg checks the file: dpkg would ask about a file that is missing and that
# the new package has changed.
if [ -e "$snippet.disabled" ] && [ ! -e "$snippet" ]; then
	mv "$snippet.disabled" "$snippet"
fi

# Before 0.1.0 the name of the drop-in was rdma_events.conf. An administrator's file
# of that name replaced it, and must continue to replace the drop-in.
if [ -e "$root/usr/lib/$units/rdma_events.conf" ] && [ ! -L "$own/00-rdma_events.conf" ] && [ ! -e "$own/00-rdma_events.conf" ]; then
	if [ -L "$own/rdma_events.conf" ] || [ -e "$own/rdma_events.conf" ]; then
		ln -s rdma_events.conf "$own/00-rdma_events.conf"
	fi
fi
