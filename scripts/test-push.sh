#!/bin/bash
# What a push runs besides make test. ROTATION names the long form, in place of the one whose turn it is.
set -eu -o pipefail
cd "$(dirname "$0")/.."
turn=${ROTATION:-$(scripts/rotation.sh)}
echo "the long form whose turn it is: $turn"

lab() { go test -tags lab -count=1 -v "$@" ./tests/lab; }

# Fuzzing takes what the others leave of the processors.
at_once() {
	nice -n 19 scripts/fuzz.sh 15s >build/fuzz.log 2>&1 &
	local fuzz=$! failed=
	go test -count=1 -timeout 15m -v -run '^TestWhoeverIsKilled' ./tests/e2e -kill.rounds 60 || failed=yes
	RDMA_EVENTS_SOAK=3m lab -timeout 20m -run '^TestSoak$' || failed=yes
	wait "$fuzz" || failed=yes
	cat build/fuzz.log
	[ -z "$failed" ]
}

if [ "$turn" = long-forms ]; then
	lab -timeout 30m -run '^(TestVariants|TestLongForms)$'
else
	lab -timeout 30m -short -run '^TestVariants$' -args -guest.whole "^$turn\$"
fi
at_once
