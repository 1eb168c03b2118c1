#!/bin/sh
# $1 is "remove" or "upgrade" for dpkg, and for rpm how many versions will be left.
set -eu
snippet=${DPKG_ROOT:-}/etc/telegraf/telegraf.d/rdma_events.conf

# dpkg leaves configuration behind, and Telegraf does not start with a snippet
# whose program is missing.
if [ "${1:-}" = remove ] && [ -e "$snippet" ]; then
	mv "$snippet" "$snippet.disabled"
fi
