#!/bin/bash
# The parts of `make release` that are a release's own. Nothing is published.
#
#   scripts/release.sh allowed    fail unless the checked-out commit is a version: nothing
#                                 is changed, an annotated tag vX.Y.Z points at it, and
#                                 CHANGELOG.md has a heading for it
#   scripts/release.sh fill DIR   add to the packages in DIR the dashboards and rules, the
#                                 image that make try-image has built, the Helm chart, the SPDX list, the
#                                 provenance and the checksums; fail unless DIR then has a
#                                 release's files and no other
#   scripts/release.sh sign DIR KEY
#                                 sign the checksums with an SSH key: its file, or the public
#                                 key of one that an agent holds
set -eu -o pipefail
cd "$(dirname "$0")/.."

refuse() {
	echo "make release: $*" >&2
	exit 1
}

# Prints the annotated tag of this commit. Of `git describe`, --tags would take others too.
tag() {
	git describe --exact-match 2>/dev/null && return
	local light
	light=$(git tag --points-at HEAD | xargs)
	[ -z "$light" ] || refuse "$light is not an annotated tag; remove it, and create it with: git tag -a"
	refuse "no tag points at this commit; create one with: git tag -a v0.1.0"
}

allowed() {
	local changed version
	changed=$(git status --porcelain)
	[ -z "$changed" ] || refuse "commit first, because what is released is a commit; these files are not in it:
$changed"
	version=$(tag)
	[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || refuse "the tag $version is not a version as v0.1.0"
	awk -v heading="## $version" '$0 == heading || index($0, heading " ") == 1 { found = 1 } END { exit !found }' CHANGELOG.md ||
		refuse "CHANGELOG.md has no heading \"## $version\"; add it, commit, and tag that commit"
}

# Prints the files of a version, without the checksums.
files() {
	local version=$1 arch
	for arch in amd64 arm64; do
		echo "rdma-events_${version}_$arch.deb"
		echo "rdma-events-tracer_${version}_$arch.deb"
		echo "rdma-events-$version-linux-$arch.tar.gz"
	done
	for arch in x86_64 aarch64; do
		echo "rdma-events-$version-1.$arch.rpm"
		echo "rdma-events-tracer-$version-1.$arch.rpm"
	done
	assets_name "$version"
	image_name "$version"
	chart_name "$version"
	spdx_name "$version"
	provenance_name "$version"
}

assets_name() { echo "rdma-events-assets_$1.tar.gz"; }
image_name() { echo "rdma-events-image_$1_$(go env GOHOSTARCH).oci.tar"; }
chart_name() { echo "rdma-events-chart_$1.tgz"; }
spdx_name() { echo "rdma-events_$1.spdx.json"; }
provenance_name() { echo "rdma-events_$1.intoto.json"; }

# Unpacks the programs of the tarballs: what is listed and run is what is released.
unpack() {
	local version=$1 arch
	for arch in amd64 arm64; do
		mkdir -p "$work/$arch"
		tar -C "$work/$arch" --strip-components=1 -xzf "$dist/rdma-events-$version-linux-$arch.tar.gz"
	done
}

assets() {
	local version=$1 name=rdma-events-assets-$1 engine
	for engine in influxdb prometheus; do
		"$work/$(go env GOHOSTARCH)/rdma-events" assets -out "$work/$name/$engine" -engine "$engine"
	done
	tar -C "$work" --sort=name --mtime="@$(git log -1 --format=%ct)" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
		-cf - "$name" | gzip -9n >"$dist/$(assets_name "$version")"
}

# The archive may be of an earlier build: its index says of which.
image() {
	local version=$1 archive=build/image/rdma-events.oci.tar
	[ -e "$archive" ] || refuse "there is no $archive; run: make try-image"
	tar -xOf "$archive" index.json | grep -qF "localhost/rdma-events:v$version\"" ||
		refuse "$archive is not the image of v$version; run: make try-image"
	cp "$archive" "$dist/$(image_name "$version")"
}

# Follows the links of the chart to the files of the kustomization.
chart() {
	local version=$1
	build/tools/helm package packaging/kubernetes/chart --version "$version" --app-version "v$version" -d "$work/chart" >"$work/log" 2>&1 ||
		{ cat "$work/log" >&2 && refuse "helm package failed"; }
	mv "$work/chart/rdma-events-$version.tgz" "$dist/$(chart_name "$version")"
}

spdx() {
	local version=$1
	go run ./packaging/spdx -version "v$version" -created "$(TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)" \
		-out "$dist/$(spdx_name "$version")" "$work"/a*64/rdma-events "$work"/a*64/rdma-events-worker \
		"$work"/a*64/rdma-events-tracer
}

# Writes where all files so far come from.
provenance() {
	local version=$1 statement=$work/statement
	go run ./packaging/provenance -version "v$version" -commit "$(git rev-parse HEAD)" -go "$(go env GOVERSION)" \
		-home packaging/home -out "$statement" "$dist"/*
	mv "$statement" "$dist/$(provenance_name "$version")"
}

# The namespace keeps the signature from being used for anything else.
sign() {
	local key=$2
	[ -e "$key" ] || refuse "there is no $key: name the file of an SSH key with KEY="
	local other
	cd "$1"
	rm -f SHA256SUMS.sig
	other=$(sha256sum --quiet -c SHA256SUMS 2>&1) || refuse "$1 has other files than SHA256SUMS lists; run make release again:
$other"
	ssh-keygen -q -Y sign -f "$key" -n rdma_events-release SHA256SUMS
	echo "signed $1/SHA256SUMS with $key"
}

fill() {
	local version difference
	dist=$(realpath "$1")
	version=$(tag)
	version=${version#v}
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	umask 022
	rm -f "$dist/SHA256SUMS" "$dist/SHA256SUMS.sig" "$dist/$(provenance_name "$version")"
	unpack "$version"
	assets "$version"
	image "$version"
	chart "$version"
	spdx "$version"
	provenance "$version"
	difference=$(diff <(files "$version" | sort) <(find "$dist" -mindepth 1 -printf '%P\n' | sort)) ||
		refuse "$1 has not the files of a release (<: missing, >: not one of them):
$difference"
	cd "$dist"
	sha256sum -- * >SHA256SUMS
	cat SHA256SUMS
}

case ${1:-} in
allowed) allowed ;;
fill) fill "${2:?the directory of the packages}" ;;
sign) sign "${2:?the directory of the packages}" "$(realpath -m "${3:?an SSH key}")" ;;
*)
	echo "usage: ${0##*/} allowed | fill DIR | sign DIR KEY" >&2
	exit 2
	;;
esac
