#!/bin/bash
# Runs the commands of a document, its arguments, as a person would paste them: in
# the project's root, and in a mount namespace, so that the files that they write
# there and in the system are discarded. The output of command N goes to $OUT/N and
# its exit status to $OUT/N.status.
set -eu
scratch=$OUT/scratch
mkdir -p "$scratch"
mount -t tmpfs tmpfs "$scratch"
for dir in /etc /usr/local /var/lib "$PWD"; do
	name=${dir//\//_}
	mkdir -p "$scratch/$name/upper" "$scratch/$name/work"
	mount -t overlay -o "lowerdir=$dir,upperdir=$scratch/$name/upper,workdir=$scratch/$name/work" overlay "$dir"
done
cd "$PWD" # from the directory itself into the overlay that is mounted over it
# The packages of Telegraf, Grafana and NHC create these directories.
mkdir -p /etc/telegraf/telegraf.d /etc/nhc/scripts /etc/grafana/provisioning/{alerting,dashboards,datasources}
cp sample.conf /etc/telegraf/rdma_events.conf
PATH=$PATH:$PWD/build
sudo() { "$@"; }
set +eu
n=0
for command in "$@"; do
	(eval "$command") >"$OUT/$n" 2>&1 </dev/null
	echo $? >"$OUT/$n.status"
	n=$((n + 1))
done
