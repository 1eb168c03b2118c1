#!/bin/sh
# Gives the file rdma-events-tracer its group, its mode and the capabilities of /etc/rdma-events/tracer.caps. Run it as
# root. The argument names another file than the package's.
set -eu
root=${DPKG_ROOT:-}
program=${1:-$root/usr/bin/rdma-events-tracer}
list=$root/etc/rdma-events/tracer.caps

fail() {
	echo "rdma-events-tracer-caps: $*" >&2
	exit 1
}

[ -r "$list" ] || fail "$list cannot be read, so $program is left as it is"
caps=$(sed 's/#.*//' "$list" | xargs)
# Who may execute the program learns what processes of other users do. chgrp removes capabilities, so setcap comes last.
chmod 0750 "$program"
chgrp telegraf "$program" 2>/dev/null ||
	fail "there is no group telegraf, so Telegraf may not execute $program; install Telegraf, and run rdma-events-tracer-caps"
[ -n "$caps" ] || fail "$list has no line, so $program has no capabilities"
command -v setcap >/dev/null ||
	fail "there is no setcap, so $program has no capabilities; install libcap2-bin, libcap or libcap-progs, and run rdma-events-tracer-caps"
said=$(setcap "$caps" "$program" 2>&1) || fail "$program has no capabilities: setcap $caps: $(echo "$said" | head -n 1)"
echo "rdma-events-tracer-caps: $program has $caps"
