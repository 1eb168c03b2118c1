#!/bin/bash
# Compares the committed eBPF objects with what their source gives: it makes them again in a copy of the module that has
# only what this takes, so that nothing of the checkout is written.
#
#   scripts/bpf.sh
#
# clang-16, llvm-strip-16 and libbpf's headers are those of scripts/packages.sh generate: another compiler gives other
# bytes.
set -eu -o pipefail
cd "$(dirname "$0")/.."
package=internal/applications/ebpf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/$package"
cp go.mod go.sum "$work"
cp "$package"/{doc.go,core.h,trace.bpf.c} "$work/$package"
(cd "$work" && go generate "./$package") >"$work/said" 2>&1 || {
	cat "$work/said" >&2
	exit 1
}
made=0
for file in "$work/$package"/*_bpfel.{go,o}; do
	if ! cmp "$file" "$package/${file##*/}" >&2; then
		echo "${0##*/}: $package/${file##*/} is not what its source gives; run: make generate" >&2
		exit 1
	fi
	made=$((made + 1))
done
# A file without a source, as of an architecture that is no longer made, would be used as well.
committed=$(git ls-files "$package/*_bpfel.go" "$package/*_bpfel.o" | wc -l)
if [ "$made" != "$committed" ]; then
	echo "${0##*/}: the source gives $made files, and $committed are committed" >&2
	exit 1
fi
echo "$made files of $package are what their source gives"
