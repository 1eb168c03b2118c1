#!/bin/sh
# enter.sh <directory> <command>...
# Runs a command in this mount namespace, which must be a new one, on the host that is in the directory: <directory>/sys is
# /sys, <directory>/nodes is /dev/infiniband, and <directory>/run is /run. <directory>/dev-source is where the file system of /dev
# comes from: udev on a host, tmpfs in a container.
set -eu
dir=$1
shift
mount --make-rprivate /
mount --rbind "$dir/sys" /sys
mkdir -p "$dir/dev"
mount -t tmpfs -o mode=0755 "$(cat "$dir/dev-source")" "$dir/dev"
for node in null zero full random urandom; do
	: >"$dir/dev/$node"
	mount --bind "/dev/$node" "$dir/dev/$node"
done
ln -s /proc/self/fd "$dir/dev/fd"
mkdir "$dir/dev/infiniband" "$dir/dev/shm"
mount --bind "$dir/nodes" "$dir/dev/infiniband"
mount --rbind "$dir/dev" /dev
mount --bind "$dir/run" /run
exec "$@"
