#!/bin/bash
# Counts the lines of Go and C that people write: code that is shipped or that makes shipped files, and code that
# verifies it. Generated files do not count.
#
#   scripts/lines.sh [COMMIT]
set -eu -o pipefail
cd "$(dirname "$0")/.."
commit=${1:-HEAD}

verifies() {
	case $1 in
	*_test.go | tests/* | internal/conformance/* | internal/sys/confine/confinetest/* | internal/device/native/testdata/*) return 0 ;;
	# Earlier commits have the suites, the stand-in library and the raw objects in these directories.
	internal/verbs/verbstest/* | internal/trace/tracetest/* | internal/session/sessiontest/* | internal/confine/confinetest/*) return 0 ;;
	internal/verbs/standin/* | internal/verbs/rawverbs/* | internal/verbs/testdata/*) return 0 ;;
	esac
	return 1
}

shipped=0 verification=0
while read -r file; do
	text=$(git show "$commit:$file")
	if [[ $file == *.go ]] && grep -q -m 1 '^// Code generated .* DO NOT EDIT\.$' <<<"$text"; then continue; fi
	lines=$(wc -l <<<"$text")
	if verifies "$file"; then
		verification=$((verification + lines))
	else
		shipped=$((shipped + lines))
	fi
done < <(git ls-tree -r --name-only "$commit" | grep -E '\.(go|c|h)$')
echo "shipped $shipped"
echo "verification $verification"
