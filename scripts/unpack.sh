#!/bin/sh
# Fetches a Debian package and extracts one file. Installing the package would start
# the daemon that it contains.
#
#   scripts/unpack.sh PACKAGE FILE DESTINATION
set -eu

package=$1 file=$2 destination=$3
if ! command -v apt-get >/dev/null; then
	echo "${0##*/}: this is not a Debian system; put $package's $file at $destination" >&2
	exit 1
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# apt fetches as its own user, which needs access to this directory.
chmod 755 "$dir"
(cd "$dir" && apt-get -q -o APT::Sandbox::User=root download "$package" >&2)
dpkg-deb -x "$dir"/*.deb "$dir/unpacked"
mkdir -p "$(dirname "$destination")"
mv "$dir/unpacked/$file" "$destination"
