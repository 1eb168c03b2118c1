#!/bin/sh
# enter.sh <directory> <command>...
# Runs a command in this mount namespace, which must be a new one, with the RDMA devices of a directory:
# <directory>/class is /sys/class, <directory>/nodes is /dev/infiniband.
set -eu
dir=$1
shift
mount --make-rprivate /
mount --bind "$dir/class" /sys/class
mkdir -p "$dir/dev"
mount -t tmpfs -o mode=0755 tmpfs "$dir/dev"
for node in null zero full random urandom; do
	: >"$dir/dev/$node"
	mount --bind "/dev/$node" "$dir/dev/$node"
done
ln -s /proc/self/fd "$dir/dev/fd"
mkdir "$dir/dev/infiniband"
mount --bind "$dir/nodes" "$dir/dev/infiniband"
mount --rbind "$dir/dev" /dev
exec "$@"
