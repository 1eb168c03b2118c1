#!/bin/bash
# Runs every fuzz test for a given time, one after the other: scripts/fuzz.sh 1m. With a second argument, 1 to 3, it runs a
# third of them. An input that fails stays in the package's testdata/fuzz: fix the fault and keep the input as a seed.
# Without -fuzzminimizetime Go would spend most of the time on making inputs smaller.
set -eu -o pipefail
for=${1:?how long each, as in 1m} third=${2:-}

mkdir -p build
tests=0
list=$(git grep '^func Fuzz' -- '*_test.go')
[ -z "$third" ] || list=$(awk -v third="$third" 'NR % 3 == third - 1' <<<"$list")
while IFS=: read -r file line; do
	name=${line#func }
	name=${name%%(*}
	echo "$file: $name for $for"
	said=build/fuzz.$name.log
	if ! go test "./${file%/*}" -run '^$' -fuzz "^$name\$" -fuzztime "$for" -fuzzminimizetime 10x 2>&1 | tee "$said"; then
		# Before Go 1.27 the end of the time may be reported as a failure: "context deadline exceeded", without an input
		# (go.dev/issue/75804).
		if grep -q 'Failing input' "$said" || ! grep -q 'context deadline exceeded' "$said"; then exit 1; fi
	fi
	tests=$((tests + 1))
done <<<"$list"
echo "$tests fuzz tests, each for $for"
