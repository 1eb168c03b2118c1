#!/bin/bash
# Builds the programs for each architecture and packages them into a directory:
# deb and rpm, of which the tracer has its own, a tarball, and the checksums of all. The same commit gives the same
# bytes on every machine.
#
#   scripts/package.sh DIR [ARCH...]   amd64 and arm64 by default
#
# The environment has VERSION and COMMIT as set by `make`, and the linker's LDFLAGS.
set -eu
cd "$(dirname "$0")/.."
out=$(realpath -m "$1")
shift
[ $# -gt 0 ] || set -- amd64 arm64
: "${VERSION:?}" "${COMMIT:?}" "${LDFLAGS:?}"

# All time stamps are that of the commit. The packages do not contain the user who built them.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
umask 022

# "v1.2.3-4-gabc" is newer than 1.2.3; without a tag it is older than any release.
package_version() {
	case $VERSION in
	v[0-9]*) echo "${VERSION#v}" | sed 's/-/+/; s/-/./g' ;;
	*) echo "0.0.0~git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(echo "$VERSION" | tr - .)" ;;
	esac
}

build() {
	local arch=$1 dir=$2 cc=gcc
	[ "$arch" = "$(go env GOHOSTARCH)" ] || cc=$(compiler "$arch")
	CGO_ENABLED=0 GOARCH=$arch go build -trimpath -ldflags "$LDFLAGS" -o "$dir/rdma-events" ./cmd/rdma-events
	CGO_ENABLED=1 GOARCH=$arch CC=$cc go build -tags grpcnotrace -trimpath -ldflags "$LDFLAGS" \
		-o "$dir/rdma-events-worker" ./cmd/rdma-events-worker
	CGO_ENABLED=0 GOARCH=$arch go build -tags grpcnotrace -trimpath -ldflags "$LDFLAGS" \
		-o "$dir/rdma-events-tracer" ./cmd/rdma-events-tracer
}

compiler() {
	case $1 in
	amd64) echo x86_64-linux-gnu-gcc ;;
	arm64) echo aarch64-linux-gnu-gcc ;;
	*)
		echo "${0##*/}: no compiler is known for $1" >&2
		exit 1
		;;
	esac
}

# Writes the man page and the completions of shells, which a program of this machine prints.
texts() {
	local dir=$1 program=$work/printer
	CGO_ENABLED=0 go build -o "$program" ./cmd/rdma-events
	"$program" print man | gzip -9n >"$dir/rdma-events.1.gz"
	"$program" print bash >"$dir/rdma-events.bash"
	"$program" print zsh >"$dir/_rdma-events"
}

# Prints the newest glibc version among the symbols that a program needs.
glibc() {
	readelf -W --dyn-syms "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1 | cut -d_ -f2
}

tarball() {
	local arch=$1 dir=$2 name=rdma-events-$PACKAGE_VERSION-linux-$1
	local stage=$work/$name
	mkdir -p "$stage"
	install -m 0755 "$dir/rdma-events" "$dir/rdma-events-worker" "$dir/rdma-events-tracer" "$stage"
	install -m 0644 README.md CHANGELOG.md LICENSE sample.conf "$dir/licences.txt" "$stage"
	install -m 0644 "$dir/rdma-events.1.gz" "$dir/rdma-events.bash" "$dir/_rdma-events" "$stage"
	install -m 0644 packaging/telegraf/rdma_events.conf "$stage/telegraf.d-rdma_events.conf"
	install -m 0644 packaging/systemd/telegraf.conf "$stage/telegraf.service.d-00-rdma_events.conf"
	tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$name" |
		gzip -9n >"$out/$name.tar.gz"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
PACKAGE_VERSION=$(package_version)
MAINTAINER=rdma-events@localhost
export PACKAGE_VERSION MAINTAINER
for ARCH in "$@"; do
	PROGRAMS=$work/$ARCH
	mkdir -p "$PROGRAMS"
	build "$ARCH" "$PROGRAMS"
	texts "$PROGRAMS"
	go run ./packaging/licences -texts "$PROGRAMS/licences.txt"
	GLIBC=$(glibc "$PROGRAMS/rdma-events-worker")
	export ARCH PROGRAMS GLIBC
	tarball "$ARCH" "$PROGRAMS"
	for packager in deb rpm; do
		for recipe in nfpm nfpm-tracer; do
			"${NFPM:-build/tools/nfpm}" package --config "packaging/$recipe.yaml" --packager "$packager" --target "$out" >/dev/null
		done
	done
done
cd "$out"
sha256sum -- *.deb *.rpm *.tar.gz >SHA256SUMS
cat SHA256SUMS
