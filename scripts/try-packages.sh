#!/bin/bash
# Tries the packages in a directory: checksums, the arm64 programs in emulation,
# and install, upgrade under a running plugin, removal and purge of deb and rpm
# in clean roots. It runs as root, and what it makes is gone after it.
#
#   scripts/try-packages.sh DIR
set -eu
cd "$(dirname "$0")/.."
: "${VERSION:?}" "${COMMIT:?}" "${LDFLAGS:?}" "${NFPM:?}"
dist=$(realpath "$1")
cache=build/clean-root.tar
work=$(mktemp -d)
root=$work/root
cleanup() {
	umount "$root/proc" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT

fail() {
	echo "${0##*/}: $*" >&2
	exit 1
}
said() { echo "${0##*/}: $*"; }
one() { # the only file of a form
	local found=("$@")
	if [ ${#found[@]} != 1 ] || [ ! -e "${found[0]}" ]; then
		fail "want one file, got: ${found[*]}"
	fi
	echo "${found[0]}"
}
await() { # what, command: until it holds, for 20 s
	local what=$1 end=$((SECONDS + 20))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || fail "$what: not within 20 s"
		sleep 0.1
	done
}
in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
as_telegraf() { in_root setpriv --reuid=telegraf --regid=telegraf --clear-groups --bounding-set=-all --inh-caps=-all -- "$@"; }

checksums() {
	(cd "$dist" && sha256sum --quiet -c SHA256SUMS)
	said "checksums are right"
}

# libibverbs is not there for arm64; the worker has to start and say so.
emulated() {
	local deb version worker=$work/arm64/usr/bin/rdma-events-worker
	deb=$(one "$dist"/*_arm64.deb)
	dpkg-deb -x "$deb" "$work/arm64"
	version=$(qemu-aarch64-static -L /usr/aarch64-linux-gnu "$worker" -version)
	[ "$version" = "rdma-events-worker $VERSION" ] || fail "arm64: want version $VERSION, got $version"
	if qemu-aarch64-static -L /usr/aarch64-linux-gnu "$worker" -library 2>"$work/said"; then
		fail "arm64: there should be no libibverbs"
	fi
	grep -q 'libibverbs.so.1' "$work/said" || fail "arm64: want a word about libibverbs.so.1, got $(cat "$work/said")"
	said "arm64: $version; $(qemu-aarch64-static "$work/arm64/usr/bin/rdma-events" version); $(cat "$work/said")"
}

next_version() {
	VERSION=v999.0.0 LDFLAGS="-s -w -X main.version=v999.0.0 -X main.commit=$COMMIT" \
		scripts/package.sh "$work/next" amd64 >/dev/null
}

clean_root() {
	local release
	release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	if [ ! -e "$cache" ]; then
		debootstrap --variant=minbase "$release" "$work/fresh" >"$work/debootstrap.log" 2>&1 ||
			fail "debootstrap: $(tail -3 "$work/debootstrap.log")"
		tar -C "$work/fresh" -cf "$cache.tmp" .
		mv "$cache.tmp" "$cache"
		rm -rf "$work/fresh"
	fi
	mkdir "$root"
	tar -C "$root" -xf "$cache"
	mount -t proc proc "$root/proc"
	in_root useradd --system --home-dir /etc/telegraf --shell /usr/sbin/nologin telegraf
	cp "$dist"/*_amd64.deb "$root/tmp/now.deb"
	cp "$work"/next/*_amd64.deb "$root/tmp/next.deb"
}

snippet=etc/telegraf/telegraf.d/rdma_events.conf

install_deb() {
	in_root dpkg -i /tmp/now.deb >/dev/null
	[ "$(as_telegraf rdma-events check -config /etc/telegraf/rdma_events.conf)" = ok ] || fail "the sample configuration is not ok"
	as_telegraf rdma-events doctor -config "/$snippet" -json >"$work/doctor" || true # there is no device
	grep -q '"check": "telegraf"' "$work/doctor" || fail "the doctor did not read the snippet"
	grep -A3 -E '"check": "(telegraf|worker_program)"' "$work/doctor" | grep -q '"status": "fail"' &&
		fail "the doctor finds the installation bad: $(cat "$work/doctor")"
	said "installed: $(in_root rdma-events version)"
}

opened() { [ "$(grep -c '"text":"opened' "$work/out")" -ge "$1" ]; }
workers() { pgrep -P "$watch" || true; }
other_worker() { [ -n "$(workers)" ] && [ "$(workers)" != "$1" ] && opened 2; }

# A worker that dies after the upgrade is replaced by one of the old version,
# which is the one that the plugin has opened.
upgrade_deb() {
	local before
	printf '[[inputs.rdma_events]]\n  backend = "sim"\n  devices = ["sim0"]\n' >"$root/etc/telegraf/sim.conf"
	# The subshell becomes the program, so that its number is the program's.
	(
		in_root() { exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin "$@"; }
		as_telegraf rdma-events watch -json -config /etc/telegraf/sim.conf
	) >"$work/out" 2>"$work/err" &
	watch=$!
	await "the simulated device is open" opened 1
	before=$(workers)
	in_root dpkg -i /tmp/next.deb >/dev/null
	[ "$(in_root rdma-events version | cut -d' ' -f2)" = v999.0.0 ] || fail "the new version is not there"
	kill -9 "$before"
	await "another worker" other_worker "$before"
	for pid in "$watch" $(workers); do
		readlink "/proc/$pid/exe" | grep -q ' (deleted)$' || fail "process $pid does not run the old version"
	done
	kill -INT "$watch"
	wait "$watch" || fail "the end after an upgrade: $(cat "$work/err")"
	said "upgraded under a running plugin, which went on as it was"
}

remove_deb() {
	in_root dpkg -r rdma-events >/dev/null 2>&1
	[ ! -e "$root/usr/bin/rdma-events" ] || fail "the program is left"
	[ ! -e "$root/$snippet" ] || fail "a snippet is left that keeps Telegraf from starting"
	in_root dpkg -i /tmp/now.deb >/dev/null
	[ -e "$root/$snippet" ] || fail "the snippet is not back"
	in_root dpkg -P rdma-events >/dev/null 2>&1
	rm -f "$root/etc/telegraf/sim.conf" "$root/tmp/"*.deb
	left=$(find "$root" -path "$root/proc" -prune -o -name '*rdma?events*' -print)
	[ -z "$left" ] || fail "left after a purge: $left"
	said "removed, put back and purged"
}

try_rpm() {
	local r=$work/rpm
	mkdir -p "$r"
	rpm --root "$r" --initdb
	# The scripts need a shell that the empty root does not have.
	rpm --root "$r" --nodeps --noscripts --ignorearch -i "$(one "$dist"/*.x86_64.rpm)" 2>/dev/null
	[ "$("$r/usr/bin/rdma-events-worker" -version)" = "rdma-events-worker $VERSION" ] || fail "rpm: not the worker's version"
	echo "# mine" >>"$r/etc/telegraf/rdma_events.conf"
	rpm --root "$r" --nodeps --noscripts --ignorearch -U "$(one "$work"/next/*.x86_64.rpm)" 2>/dev/null
	[ "$("$r/usr/bin/rdma-events-worker" -version)" = "rdma-events-worker v999.0.0" ] || fail "rpm: not the new worker's version"
	grep -q '^# mine$' "$r/etc/telegraf/rdma_events.conf" || fail "rpm: the configuration was overwritten"
	rpm --root "$r" --noscripts -e rdma-events 2>/dev/null
	if [ -e "$r/usr/bin/rdma-events" ] || [ -e "$r/$snippet" ]; then
		fail "rpm: files are left"
	fi
	said "rpm: installed, upgraded and erased"
}

checksums
emulated
next_version
clean_root
install_deb
upgrade_deb
remove_deb
try_rpm
