#!/bin/bash
# Prints which long form this push runs: one of them, by a hash of the tree, so that equal trees run the same one and
# all of them have their turn.
set -eu
cd "$(dirname "$0")/.."
forms=(release-siw backports-rxe backports-siw next-library long-forms)
tree=$(git rev-parse 'HEAD^{tree}')
echo "${forms[$((16#${tree:0:7} % ${#forms[@]}))]}"
