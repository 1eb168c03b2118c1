#!/bin/sh
# $1 is "remove" or "upgrade" with dpkg. With rpm it is the number of versions that will be left.
set -eu
snippet=${DPKG_ROOT:-}/etc/telegraf/telegraf.d/rdma_events.conf

# dpkg leaves configuration files behind, and Telegraf does not start with a snippet
# whose program is missing.
if [ "${1:-}" = remove ] && [ -e "$snippet" ]; then
	mv "$snippet" "$snippet.disabled"
fi
