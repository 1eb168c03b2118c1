#!/bin/bash
# Verifies that the checked-out commit gives the same packages wherever it is built.
# It packages two clones in directories with different names, the second one without
# any file of an earlier build. The arguments are architectures.
set -eu
cd "$(dirname "$0")/.."
: "${VERSION:?}" "${COMMIT:?}" "${LDFLAGS:?}" "${NFPM:?}"
NFPM=$(realpath "$NFPM")
export NFPM
work=$(mktemp -d)
# Go makes parts of its cache read-only.
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
