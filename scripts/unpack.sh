#!/bin/sh
# Fetches a Debian package and extracts files or directories of it. Installing the
# package would start the daemon that it contains.
#
#   scripts/unpack.sh PACKAGE FILE DESTINATION [FILE DESTINATION]...
set -eu

package=$1
shift
if ! command -v apt-get >/dev/null; then
	echo "${0##*/}: this is not a Debian system; put $package's $1 at $2" >&2
	exit 1
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# apt fetches as its own user, which needs access to this directory.
chmod 755 "$dir"
(cd "$dir" && apt-get -q -o APT::Sandbox::User=root download "$package" >&2)
dpkg-deb -x "$dir"/*.deb "$dir/unpacked"
while [ $# -gt 0 ]; do
	mkdir -p "$(dirname "$2")"
	rm -rf "$2"
	mv "$dir/unpacked/$1" "$2"
	shift 2
done
