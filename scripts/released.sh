#!/bin/sh
# Fails if the commit is tagged with a version, and the version's sample configuration
# is not among those that newer versions have to accept.
set -eu
cd "$(dirname "$0")/.."
tag=$(git describe --tags --exact-match --match 'v*' 2>/dev/null) || exit 0
kept=internal/agent/testdata/released/$tag.conf
if ! cmp -s sample.conf "$kept"; then
	echo "make release: $kept is not sample.conf: copy it there, commit, and tag that commit" >&2
	exit 1
fi
