#!/bin/bash
# Runs commands of a document as a person would paste them, in the project's root
# and in a mount namespace: what they write, there and in the system, is thrown
# away. What it says goes to $OUT/N, its status to $OUT/N.status; the arguments are
# the commands.
set -eu
scratch=$OUT/scratch
mkdir -p "$scratch"
mount -t tmpfs tmpfs "$scratch"
for dir in /etc /usr/local /var/lib "$PWD"; do
	name=${dir//\//_}
	mkdir -p "$scratch/$name/upper" "$scratch/$name/work"
	mount -t overlay -o "lowerdir=$dir,upperdir=$scratch/$name/upper,workdir=$scratch/$name/work" overlay "$dir"
done
cd "$PWD" # from what was there before into what now lies over it
# What the packages of Telegraf and Grafana make.
mkdir -p /etc/telegraf/telegraf.d /etc/grafana/provisioning/{alerting,dashboards,datasources}
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
