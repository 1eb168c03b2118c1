#!/bin/sh
# The guest's first program. It mounts the host's file system and then executes the init of the run.
# A step that fails ends this program, and the kernel panics. The host then sees the message of the step.
set -e
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/mods/$module"; done </mods/order

mkdir -p /mnt/ro /mnt/rw
# Only /out changes while a guest runs, so the root may be cached and /out may not.
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 root /mnt/ro
lower=/mnt/ro
if [ "${LAB_LAYER:-}" ]; then
	mkdir /mnt/layer
	mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 layer /mnt/layer
	lower=/mnt/layer:$lower
fi
mount -t tmpfs -o mode=0755 tmpfs /mnt/rw
mkdir /mnt/rw/upper /mnt/rw/work
mount -t overlay -o "lowerdir=$lower,upperdir=/mnt/rw/upper,workdir=/mnt/rw/work" overlay /new
mkdir -p /new/out
mount -t 9p -o trans=virtio,version=9p2000.L,cache=none,msize=262144 out /new/out

mount -t proc proc /new/proc
mount -t sysfs sys /new/sys
mount -t devtmpfs dev /new/dev
exec switch_root /new /bin/sh /out/lab/init
