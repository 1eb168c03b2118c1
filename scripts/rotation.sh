#!/bin/bash
# Prints the long form that this push runs. A hash of the tree selects it, so that equal trees run the same one and each
# one has its turn. A part of a variant, of the slow tests of the lab or of the fuzz tests is a turn of its own. "list" prints all turns.
set -eu
cd "$(dirname "$0")/.."
turns=(harness slow/{1..12} slow/programs storm stopped churn successor addresses hardware report tracer soak kills fuzz/1 fuzz/2 fuzz/3 rules management)
for variant in release-siw backports-rxe backports-siw next-library; do
	turns+=("$variant/1" "$variant/2" "$variant/3")
done
if [ "${1:-}" = list ]; then
	printf '%s\n' "${turns[@]}"
	exit
fi
tree=$(git rev-parse 'HEAD^{tree}')
echo "${turns[$((16#${tree:0:7} % ${#turns[@]}))]}"
