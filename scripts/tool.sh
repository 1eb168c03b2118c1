#!/bin/sh
# Builds a program of another project with go install, unless its file exists already. The arguments are the file, a
# package with its version, and flags of go install. Two checkouts may build into the same cache at the same time.
set -eu
out=$1 package=$2
shift 2
[ ! -e "$out" ] || exit 0
echo "building $package into ${out%/*}" >&2
mkdir -p "${out%/*}"
new=$(mktemp -d "$out.XXXXXX")
trap 'rm -rf "$new"' EXIT
GOBIN=$new go install -trimpath "$@" "$package"
mv "$new"/* "$out"
