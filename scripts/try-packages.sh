#!/bin/bash
# Tries the packages in a directory: the checksums, the arm64 programs in emulation,
# the drop-in for telegraf.service, and the debs and the rpms with their scripts, which
# are installed, upgraded under a running plugin and removed in a clean root. It runs
# as root and removes its working directory at the end.
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
one() { # prints the only file among the arguments
	local found=("$@")
	if [ ${#found[@]} != 1 ] || [ ! -e "${found[0]}" ]; then
		fail "want one file, got: ${found[*]}"
	fi
	echo "${found[0]}"
}
await() { # arguments: a description, a command; waits until the command succeeds, for 20 s at most
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

# libibverbs is not installed for arm64; the worker has to start and report that.
emulated() {
	local deb name version worker=$work/arm64/usr/bin/rdma-events-worker
	for name in rdma-events rdma-events-tracer; do
		deb=$(one "$dist/$name"_*_arm64.deb)
		dpkg-deb -x "$deb" "$work/arm64"
	done
	version=$(qemu-aarch64-static -L /usr/aarch64-linux-gnu "$worker" -version)
	[ "$version" = "rdma-events-worker $VERSION" ] || fail "arm64: want version $VERSION, got $version"
	if qemu-aarch64-static -L /usr/aarch64-linux-gnu "$worker" -library 2>"$work/said"; then
		fail "arm64: there should be no libibverbs"
	fi
	grep -q 'libibverbs.so.1' "$work/said" || fail "arm64: want a word about libibverbs.so.1, got $(cat "$work/said")"
	said "arm64: $version; $(qemu-aarch64-static "$work/arm64/usr/bin/rdma-events" version);" \
		"$(qemu-aarch64-static "$work/arm64/usr/bin/rdma-events-tracer" -version); $(cat "$work/said")"
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
	cp "$dist"/rdma-events_*_amd64.deb "$root/tmp/now.deb"
	cp "$work"/next/rdma-events_*_amd64.deb "$root/tmp/next.deb"
	cp "$dist"/rdma-events-tracer_*_amd64.deb "$root/tmp/tracer.deb"
	cp "$work"/next/rdma-events-tracer_*_amd64.deb "$root/tmp/next-tracer.deb"
	mkdir -p "$root/run/systemd/system"
	systemctl_notes
}

# Installs a replacement of systemctl that records the requests of the packages' scripts.
systemctl_notes() {
	printf '#!/bin/sh\necho "$*" >>/run/systemd/asked\n' >"$root/usr/bin/systemctl"
	chmod 0755 "$root/usr/bin/systemctl"
}

snippet=etc/telegraf/telegraf.d/rdma_events.conf

reloaded() { # argument: a description; the scripts must have called systemctl daemon-reload and nothing else
	[ "$(sort -u "$root/run/systemd/asked")" = daemon-reload ] || fail "$1: want systemctl daemon-reload, got $(cat "$root/run/systemd/asked")"
	rm "$root/run/systemd/asked"
}

require_installed() { # arguments: a package, its version; the programs must run and the doctor must find no fault
	[ "$(in_root rdma-events version | cut -d' ' -f2)" = "$2" ] || fail "$1: want version $2, got $(in_root rdma-events version)"
	[ ! -e "$root/usr/bin/rdma-events-tracer" ] || fail "$1: it brings the tracer, which has a package of its own"
	as_telegraf rdma-events check -config /etc/telegraf/rdma_events.conf >"$work/check" || fail "the sample configuration: $(cat "$work/check")"
	in_root rdma-events print bash | cmp - "$root/usr/share/bash-completion/completions/rdma-events" ||
		fail "$1: the completion for bash is another program's"
	in_root rdma-events print zsh | cmp - "$(one "$root"/usr/share/zsh/*/_rdma-events)" || fail "$1: the completion for zsh is another program's"
	in_root rdma-events print man | cmp - <(zcat "$root/usr/share/man/man1/rdma-events.1.gz") || fail "$1: the man page is another program's"
	as_telegraf rdma-events doctor -config "/$snippet" -json >"$work/doctor" || true # there is no device
	grep -q '"check": "telegraf"' "$work/doctor" || fail "the doctor did not read the snippet"
	grep -A3 -E '"check": "(telegraf|worker_program)"' "$work/doctor" | grep -q '"status": "fail"' &&
		fail "the doctor finds the installation bad: $(cat "$work/doctor")"
	as_telegraf rdma-events watch -demo -json -for 20s >"$work/demo" || fail "the demonstration: $(tail -3 "$work/demo")"
	grep -q '"event":"port_active".*"state_from":"down","state_to":"active"' "$work/demo" || fail "the demonstration shows no flap within 20 s"
	said "$1 installed: $(in_root rdma-events version)"
}

install_deb() {
	in_root dpkg -i /tmp/now.deb >/dev/null
	reloaded "deb installed"
	require_installed deb "$VERSION"
}

opened() { [ "$(grep -c '"opened":' "$work/out")" -ge "$1" ]; }
workers() { pgrep -P "$watch" || true; }
other_worker() { [ -n "$(workers)" ] && [ "$(workers)" != "$1" ] && opened 2; }

# A worker that dies after the upgrade is replaced by a worker of the old version,
# because the plugin has that program open.
upgrade_running() { # arguments: a package, the command that upgrades
	local package=$1 before
	shift
	printf '[[inputs.rdma_events]]\n  backend = "sim"\n  devices = ["sim0"]\n' >"$root/etc/telegraf/sim.conf"
	: >"$work/out" # the output of the previous package has the same lines
	# The subshell executes the program, so that it has the subshell's process number.
	(
		in_root() { exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin "$@"; }
		as_telegraf rdma-events watch -json -config /etc/telegraf/sim.conf
	) >"$work/out" 2>"$work/err" &
	watch=$!
	await "the simulated device is open" opened 1
	before=$(workers)
	"$@" >/dev/null
	reloaded "$package upgraded"
	[ "$(in_root rdma-events version | cut -d' ' -f2)" = v999.0.0 ] || fail "$package: the new version is not there"
	kill -9 "$before"
	await "another worker" other_worker "$before"
	for pid in "$watch" $(workers); do
		readlink "/proc/$pid/exe" | grep -q ' (deleted)$' || fail "process $pid does not run the old version"
	done
	kill -INT "$watch"
	wait "$watch" || fail "the end after an upgrade: $(cat "$work/err")"
	rm "$root/etc/telegraf/sim.conf"
	said "$package upgraded under a running plugin, which went on as it was"
}

tracer=usr/bin/rdma-events-tracer
# As in telegraf.service, which leaves the bounding set alone: a program does not start whose file has a capability that the
# bounding set lacks. setpriv itself executes a program with the capabilities that it had; env has none.
as_unit() { in_root setpriv --reuid=telegraf --regid=telegraf --clear-groups -- /usr/bin/env "$@"; }

require_tracer() { # arguments: a package, its version, the capabilities that the tracer's file has to have
	local has
	[ "$(as_unit rdma-events-tracer -version | cut -d' ' -f2)" = "$2" ] || fail "$1: want a tracer of version $2"
	has=$(in_root stat -c '%a %U %G' "/$tracer")
	[ "$has" = "750 root telegraf" ] || fail "$1: the tracer is $has"
	has=$(getcap "$root/$tracer")
	[ "${has#"$root/$tracer"}" = "${3:+ $3}" ] || fail "$1: want the capabilities $3, got $has"
	in_root setpriv --reuid=nobody --regid=nogroup --clear-groups -- /usr/bin/env rdma-events-tracer -version >/dev/null 2>&1 &&
		fail "$1: anybody can execute the tracer"
	said "$1 of the tracer installed: version $2${3:+, $3}"
}

# Gives the root this machine's setcap.
give_setcap() {
	local file
	for file in /usr/sbin/setcap $(ldd /usr/sbin/setcap | awk '$1 ~ /^libcap/ {print $3}'); do
		install -D "$file" "$root/$(realpath -m --relative-to=/ "$file")"
	done
	in_root ldconfig
}

# At first the root has no setcap, as a host without libcap2-bin.
install_tracer_deb() {
	if in_root dpkg -i /tmp/tracer.deb >"$work/said" 2>&1; then fail "deb: the tracer was configured without libcap2-bin"; fi
	grep -q 'depends on libcap2-bin' "$work/said" || fail "deb: the tracer without libcap2-bin: $(cat "$work/said")"
	in_root dpkg -i --force-depends /tmp/tracer.deb >"$work/said" 2>&1 || fail "deb: the tracer: $(cat "$work/said")"
	grep -q '^rdma-events-tracer-caps: there is no setcap' "$work/said" || fail "deb: no word about setcap: $(cat "$work/said")"
	require_tracer deb "$VERSION" ""
	give_setcap
	in_root rdma-events-tracer-caps >"$work/said" 2>&1 || fail "deb: $(cat "$work/said")"
	require_tracer deb "$VERSION" cap_perfmon,cap_bpf=ep
	sed -i 's/^cap_bpf.*/cap_bpf,cap_perfmon,cap_sys_admin=ep/' "$root/etc/rdma-events/tracer.caps"
}

# Builds the next version with another snippet, about which dpkg could ask.
changed_deb() {
	dpkg-deb -R "$root/tmp/next.deb" "$work/changed"
	echo "# of another version" >>"$work/changed/$snippet"
	dpkg-deb -Znone -b "$work/changed" "$root/tmp/changed.deb" >/dev/null
}

remove_deb() {
	in_root dpkg -r rdma-events-tracer >/dev/null 2>&1
	[ ! -e "$root/$tracer" ] || fail "the tracer is left"
	in_root dpkg -r rdma-events >/dev/null 2>&1
	reloaded "deb removed"
	[ ! -e "$root/usr/bin/rdma-events" ] || fail "the program is left"
	[ ! -e "$root/$snippet" ] || fail "a snippet is left that keeps Telegraf from starting"
	changed_deb
	printf '#!/bin/sh\nexit 1\n' >"$root/usr/bin/systemctl"
	in_root dpkg -i /tmp/changed.deb </dev/null >"$work/said" 2>&1 || fail "deb: the next version after a removal: $(cat "$work/said")"
	grep -q '^# of another version$' "$root/$snippet" || fail "the snippet is not that of the next version"
	in_root dpkg -P rdma-events-tracer >/dev/null 2>&1 || fail "deb: the tracer purged: status $?"
	in_root dpkg -P rdma-events >/dev/null 2>&1 || fail "deb: purged with a systemctl that fails: status $?"
	systemctl_notes
	rm -f "$root/tmp/"*.deb "$root/run/systemd/asked"
	nothing_left deb
	said "deb removed, the next one put in its place without a terminal, and purged with a systemctl that fails"
}

nothing_left() { # argument: a package
	local left
	left=$(find "$root" -path "$root/proc" -prune -o \( -name '*rdma?events*' -o -name telegraf.service.d \) -print)
	[ -z "$left" ] || fail "$1: left after the removal: $left"
}

# The clean root is a Debian system, so rpm finds no package there that satisfies a dependency.
rpm_root() { rpm --root "$root" "$@" 2>>"$work/rpm"; }
rpm_upgrade() { rpm_root --nodeps --ignorearch -U "$@"; }

try_rpm() {
	rpm_root --initdb
	rpm_upgrade "$(one "$dist"/rdma-events-[0-9]*.x86_64.rpm)" >"$work/said" || fail "rpm: $(cat "$work/rpm")"
	grep -q 'restart Telegraf' "$work/said" || fail "rpm: the script after the installation said: $(cat "$work/said")"
	reloaded "rpm installed"
	require_installed rpm "$VERSION"
	rpm_upgrade "$(one "$dist"/rdma-events-tracer-*.x86_64.rpm)" >"$work/said" || fail "rpm: the tracer: $(cat "$work/rpm")"
	require_tracer rpm "$VERSION" cap_perfmon,cap_bpf=ep
	rpm_root --nodeps -e rdma-events-tracer || fail "rpm: the tracer: $(cat "$work/rpm")"
	echo "# mine" >>"$root/etc/telegraf/rdma_events.conf"
	upgrade_running rpm rpm_upgrade "$(one "$work"/next/rdma-events-[0-9]*.x86_64.rpm)"
	grep -q '^# mine$' "$root/etc/telegraf/rdma_events.conf" || fail "rpm: the configuration was overwritten"
	[ -e "$root/$snippet" ] || fail "rpm: the upgrade took the snippet away"
	rpm_root --nodeps -e rdma-events || fail "rpm: $(cat "$work/rpm")"
	reloaded "rpm erased"
	rm "$root/etc/telegraf/rdma_events.conf.rpmsave"
	nothing_left rpm
	said "rpm erased, and kept the configuration that was changed"
}

# Prints systemd's messages about telegraf.service, with the drop-ins that the root has.
unit_verified() { systemd-analyze verify --root="$root" telegraf.service 2>&1 || true; }

# The drop-in must not add a message. After that, wrong lines in the drop-ins show
# that systemd reads this one, and reads it before an administrator's: systemd
# reports wrong lines in the order in which it reads them.
try_dropin() {
	local units=usr/lib/systemd/system/telegraf.service.d own=etc/systemd/system/telegraf.service.d before after
	install -D -m 0644 "$(go list -m -f '{{.Dir}}' github.com/influxdata/telegraf)/scripts/telegraf.service" \
		"$root/usr/lib/systemd/system/telegraf.service"
	before=$(unit_verified)
	install -D -m 0644 packaging/systemd/telegraf.conf "$root/$units/00-rdma_events.conf"
	after=$(unit_verified)
	[ "$after" = "$before" ] || fail "the drop-in: $after"
	mkdir -p "$root/$own"
	printf '[Service]\nNonsense=1\n' | tee -a "$root/$units/00-rdma_events.conf" >"$root/$own/override.conf"
	[ "$(unit_verified | sed -n "s/.*\/\(.*\.conf\):.*'Nonsense'.*/\1/p" | xargs)" = "00-rdma_events.conf override.conf" ] ||
		fail "systemd applies the drop-in before override.conf? $(unit_verified)"
	said "systemd has nothing against the drop-in for telegraf.service"
}

checksums
emulated
next_version
clean_root
install_deb
install_tracer_deb
upgrade_running deb in_root dpkg --force-depends -i /tmp/next.deb /tmp/next-tracer.deb
require_tracer deb v999.0.0 cap_sys_admin,cap_perfmon,cap_bpf=ep
remove_deb
try_rpm
try_dropin
