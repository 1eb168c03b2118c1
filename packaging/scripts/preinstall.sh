#!/bin/sh
# $1 is "install" or "upgrade" for dpkg, and for rpm how many versions there will be.
set -eu
root=${DPKG_ROOT:-}
snippet=$root/etc/telegraf/telegraf.d/rdma_events.conf
units=systemd/system/telegraf.service.d
own=$root/etc/$units

# What a removal of the deb has put aside. It has to be back before dpkg looks: of
# a file that is gone and has changed since, it would ask.
if [ -e "$snippet.disabled" ] && [ ! -e "$snippet" ]; then
	mv "$snippet.disabled" "$snippet"
fi

# Before 0.1.0 the drop-in was rdma_events.conf. An administrator's file of that
# name stood in its place, and is to go on doing so.
if [ -e "$root/usr/lib/$units/rdma_events.conf" ] && [ ! -L "$own/00-rdma_events.conf" ] && [ ! -e "$own/00-rdma_events.conf" ]; then
	if [ -L "$own/rdma_events.conf" ] || [ -e "$own/rdma_events.conf" ]; then
		ln -s rdma_events.conf "$own/00-rdma_events.conf"
	fi
fi
