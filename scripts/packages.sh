#!/bin/sh
# Installs the Debian packages that a group of make targets needs, without asking.
#
#   scripts/packages.sh run     compile and run the worker
#   scripts/packages.sh test    the above, all packages that the tests need, and the guest kernel's headers
#   scripts/packages.sh lab     the same as test
#   scripts/packages.sh lint    check scripts, C files, the Dockerfile and the eBPF objects
#   scripts/packages.sh package make packages, also for arm64, and try them
#   scripts/packages.sh image   build and try the container image
#   scripts/packages.sh schema  compare dashboards with Grafana's schemas
#   scripts/packages.sh preview draw the dashboards
#   scripts/packages.sh generate compile the protobuf descriptions of messages, and the eBPF programs
#
# LAB_KERNEL names the kernel package of the lab's guest (default: linux-image-amd64).
set -eu
# Standard output belongs to the make target, so apt's messages go to standard error.
exec 1>&2

kernel=${LAB_KERNEL:-linux-image-amd64}
# For a kernel of another suite (package/suite) the lab fetches the headers itself. The tools that build modules for it
# come with the headers of the release's own kernel.
case $kernel in */*) kernel=linux-image-amd64 ;; esac

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# The injector is built for exactly the kernel that the guest boots, so the name of the headers is derived from the name
# of the image. The two meta packages can point at different versions while an update is half published.
headers_package() {
	image=$(apt-cache depends "$kernel" 2>/dev/null | awk '/ Depends: linux-image-[0-9]/ {print $2; exit}')
	if [ -z "$image" ]; then
		case $kernel in linux-image-[0-9]*) image=$kernel ;; *) return 1 ;; esac
	fi
	image=${image%-unsigned}
	echo "linux-headers-${image#linux-image-}"
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

can_be_root() {
	[ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

refresh() {
	as_root apt-get -q -o DPkg::Lock::Timeout=300 update
}

group=${1:-}
packages="gcc libc6-dev libibverbs-dev ibverbs-providers"
needs_kernel=
extra="bpftrace lsof make mandoc openssh-client zsh qemu-system-x86 busybox-static e2fsprogs kmod xz-utils iproute2 rdma-core ibverbs-utils
perftest libcap2-bin"
# What makes the eBPF objects: another version of the compiler gives other bytes.
bpf="clang-16 llvm-16 libbpf-dev"
case $group in
run) ;;
test | lab)
	packages="$packages $extra"
	needs_kernel=yes
	;;
generate) packages="protobuf-compiler $bpf" ;;
image) packages="buildah crun debootstrap ca-certificates" ;;
package) packages="$packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static debootstrap rpm systemd" ;;
lint | schema | preview)
	packages=
	[ "$group" != lint ] || packages="shellcheck clang-format $bpf"
	[ "$group" != preview ] || packages="chromium fonts-inter"
	# If Node from another source is installed, it stays, because Debian's Node would conflict with it.
	command -v npm >/dev/null || packages="$packages nodejs npm"
	;;
*)
	echo "usage: ${0##*/} run|test|lab|lint|package|image|schema|preview|generate" >&2
	exit 2
	;;
esac

if ! command -v apt-get >/dev/null; then
	echo "${0##*/}: this is not a Debian system; install the equivalents of: $packages" >&2
	exit 1
fi

# Whatever group refreshes the lists, the guests boot the newest kernel that the lists then have. Where its headers are
# installed they are kept at that version.
if [ -z "$needs_kernel" ] && headers=$(headers_package) && installed "$headers"; then
	needs_kernel=yes
fi

refreshed=
if [ -n "$needs_kernel" ]; then
	if ! headers=$(headers_package); then
		# A new container has no package lists at all.
		if can_be_root; then
			refresh
			refreshed=yes
		fi
		headers=$(headers_package) || {
			echo "${0##*/}: no package lists know $kernel; as root run: apt-get update" >&2
			exit 1
		}
	fi
	packages="$packages $headers"
fi

missing=
for p in $packages; do
	installed "$p" || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
missing=${missing# }
echo "missing packages: $missing"

if ! can_be_root; then
	echo "install them with: sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends $missing'"
	exit 1
fi
[ -n "$refreshed" ] || refresh
# The new lists may have a newer kernel than the one that was found above.
if [ -n "$needs_kernel" ]; then
	newer=$(headers_package)
	if [ "$newer" != "$headers" ]; then
		missing="$(echo " $missing " | sed "s/ $headers / /") $newer"
	fi
fi
# shellcheck disable=SC2086 # a list of names
as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
	install --no-install-recommends $missing
