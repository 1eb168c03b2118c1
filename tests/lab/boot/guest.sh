# shellcheck shell=dash disable=SC2154
# The guest's init after the initramfs. Each run writes lines before these that set LAB_MODULES, LAB_MODE, LAB_ROOT and
# LAB_CACHE.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM="${TERM:-linux}"

# The hardware clock has whole seconds only. The host sets the time of the one file by its clock, and the guest that of the
# other, right after it. The clock is set by the difference: to start a program takes a busy guest more than a second.
: >/out/lab/booted
: >/booted
ahead=$(($(date -r /out/lab/booted +%s%N) - $(date -r /booted +%s%N)))
sign=+
[ "$ahead" -ge 0 ] || sign=- ahead=$((-ahead))
date -s "now $sign$(printf '%d.%09d' $((ahead / 1000000000)) $((ahead % 1000000000))) seconds" >/dev/null
rm /booted

# The checkout and the cache keep their paths, even below the guest's own /run and /tmp, and any user may enter them.
# The modes change in the overlay only.
mkdir -p /mnt/LAB_ROOT /mnt/LAB_CACHE
mount --bind "$LAB_ROOT" /mnt/LAB_ROOT
mount --bind "$LAB_CACHE" /mnt/LAB_CACHE
mount -t tmpfs -o mode=0755 tmpfs /run
mount -t tmpfs tmpfs /tmp
open_to_all() {
	case $2 in /tmp/* | /run/*) mkdir -p "$2" && mount --bind "/mnt/$1" "$2" ;; esac
	while [ "$2" != / ]; do
		chmod a+rx "$2"
		set -- "$1" "$(dirname "$2")"
	done
	umount "/mnt/$1"
}
open_to_all LAB_ROOT "$LAB_ROOT"
open_to_all LAB_CACHE "$LAB_CACHE"
mkdir -p /dev/pts /dev/shm /run/netns /lib/modules
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t debugfs debugfs /sys/kernel/debug
mount --bind "$LAB_MODULES" /lib/modules
ln -sf /proc/self/fd /dev/fd
/usr/bin/ip link set lo up
echo rdma-lab >/proc/sys/kernel/hostname
ulimit -c 0
ulimit -Hn 524288
ulimit -Sn 1024
: >/run/rdma-events-guest

if [ "$LAB_MODE" = shell ]; then
	setsid -c /bin/bash /out/lab/job </dev/hvc0 >/dev/hvc0 2>&1
else
	for port in /sys/class/virtio-ports/*; do
		read -r name <"$port/name" && [ "$name" = lab.output ] && output=/dev/${port##*/}
	done
	/bin/sh /out/lab/job </dev/null >"$output" 2>&1
fi
# The file is renamed, so that the host never reads a part of it.
echo $? >/out/lab/status.tmp
mv /out/lab/status.tmp /out/lab/status
echo o >/proc/sysrq-trigger
sleep 60
