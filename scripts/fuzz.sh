#!/bin/bash
# Fuzzes every fuzz test for a while, one after the other: scripts/fuzz.sh 1m. What is found stays in the package's
# testdata/fuzz, to be mended and kept as a seed. Go would spend most of the time on making inputs smaller.
set -eu
for=${1:?how long each, as in 1m}

tests=0
list=$(git grep '^func Fuzz' -- '*_test.go')
while IFS=: read -r file line; do
	name=${line#func }
	name=${name%%(*}
	echo "$file: $name for $for"
	go test "./${file%/*}" -run '^$' -fuzz "^$name\$" -fuzztime "$for" -fuzzminimizetime 10x
	tests=$((tests + 1))
done <<<"$list"
echo "reliability: fuzz tests, each for $for: $tests"
