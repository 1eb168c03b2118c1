#!/bin/bash
# Builds the image of packaging/container/Dockerfile with buildah, without an image
# registry and without a daemon. It unpacks the image into DIR/rootfs for the lab's
# test, and packs it into DIR/rdma-events.oci.tar, which is a release's archive.
# The script makes the two base images itself: Debian's with debootstrap, and Go's
# with the compiler of this machine. So it tries the Dockerfile, not the published
# images.
#
#   scripts/try-image.sh DIR
set -eu
cd "$(dirname "$0")/.."
: "${VERSION:?}" "${COMMIT:?}" "${TELEGRAF:?}"
mkdir -p "$1"
dir=$(realpath "$1")
release=bookworm
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=${STORAGE_DRIVER:-overlay}
# The directory names begin with a dot, so that go's ./... skips the sources in them.
store() { buildah --root "$dir/.storage" --runroot "$dir/.run" "$@"; }
# containers-storage mounts its directory over itself. make clean could not remove a mounted directory.
release_storage() { umount "$dir/.storage/overlay" 2>/dev/null || true; }
trap release_storage EXIT
said() { echo "${0##*/}: $*"; }

# A base image is made only once; make clean removes DIR.
base_image() {
	if store inspect --type image localhost/base >/dev/null 2>&1; then return; fi
	rm -rf "$dir/base"
	debootstrap --variant=minbase "$release" "$dir/base" >"$dir/debootstrap.log" 2>&1 ||
		{ tail -3 "$dir/debootstrap.log" >&2; exit 1; }
	# debootstrap copies this machine's name and name servers.
	rm -rf "$dir"/base/etc/{hostname,resolv.conf} "$dir"/base/var/cache/apt/archives/*.deb \
		"$dir"/base/var/lib/apt/lists/* "$dir"/base/var/log/{bootstrap.log,dpkg.log,apt}
	local c
	c=$(store from scratch)
	store copy -q "$c" "$dir/base" / >/dev/null
	store config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$c"
	store commit -q --rm "$c" localhost/base >/dev/null
	rm -rf "$dir/base"
}

go_image() {
	if store inspect --type image localhost/go >/dev/null 2>&1; then return; fi
	local c
	c=$(store from --pull-never localhost/base)
	store run "$c" -- sh -c 'apt-get -q update && apt-get -q -y install --no-install-recommends gcc libc6-dev ca-certificates' \
		>"$dir/go_image.log" 2>&1 || { tail -3 "$dir/go_image.log" >&2; exit 1; }
	store copy -q "$c" "$(go env GOROOT)" /usr/local/go >/dev/null
	# The image needs this machine's certificates, because there may be a proxy before the package registries.
	store copy -q "$c" /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ >/dev/null
	store config --env PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --env GOPATH=/go "$c"
	store commit -q --rm "$c" localhost/go >/dev/null
}

# The build uses the host's Go caches, so that it fetches and builds only changes.
image() {
	store build -q --pull-never -f packaging/container/Dockerfile --build-arg GO_IMAGE=localhost/go \
		--build-arg BASE_IMAGE=localhost/base --build-arg VERSION="$VERSION" --build-arg COMMIT="$COMMIT" \
		--build-arg TELEGRAF_VERSION="$TELEGRAF" \
		--volume "$(go env GOMODCACHE):/go/pkg/mod" --volume "$(go env GOCACHE):/root/.cache/go-build" \
		-t localhost/rdma-events . >"$dir/build.log" 2>&1 || { tail -20 "$dir/build.log" >&2; exit 1; }
}

unpack() {
	local c
	c=$(store from --pull-never localhost/rdma-events)
	rm -rf "$dir/rootfs"
	cp -a "$(store mount "$c")" "$dir/rootfs"
	store rm "$c" >/dev/null
}

# The reference in the archive is the name that docker load and podman load give the image.
archive() {
	rm -f "$dir/rdma-events.oci.tar"
	store push -q localhost/rdma-events "oci-archive:$dir/rdma-events.oci.tar:localhost/rdma-events:$VERSION" >/dev/null
}

base_image
go_image
image
unpack
archive
said "$(du -sh "$dir/rootfs" | cut -f1) in $dir/rootfs: $(chroot "$dir/rootfs" /usr/bin/telegraf --version)," \
	"$(chroot "$dir/rootfs" /usr/bin/rdma-events version)," \
	"$(chroot "$dir/rootfs" /usr/bin/rdma-events-worker -version)," \
	"$(chroot "$dir/rootfs" /usr/bin/rdma-events-tracer -version)"
said "$(du -h "$dir/rdma-events.oci.tar" | cut -f1) in $dir/rdma-events.oci.tar"
