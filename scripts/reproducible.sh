#!/bin/bash
# Shows that the commit that is checked out gives the same packages wherever it
# is built: it packages two clones in directories of different names, the second
# one without anything from an earlier build. Arguments are architectures.
set -eu
cd "$(dirname "$0")/.."
: "${VERSION:?}" "${COMMIT:?}" "${LDFLAGS:?}" "${NFPM:?}"
NFPM=$(realpath "$NFPM")
export NFPM
work=$(mktemp -d)
# Go makes its cache read-only in part.
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT

for name in one another-directory; do
	git clone --quiet --no-hardlinks . "$work/$name"
	git -C "$work/$name" checkout --quiet --detach "$COMMIT"
done
one=$("$work/one/scripts/package.sh" "$work/one/dist" "$@")
another=$(GOCACHE=$work/cache "$work/another-directory/scripts/package.sh" "$work/another-directory/dist" "$@")
echo "$one"
if [ "$one" != "$another" ]; then
	echo "${0##*/}: the second build differs:" >&2
	diff <(echo "$one") <(echo "$another") >&2
	exit 1
fi
echo "two builds, one hash"
