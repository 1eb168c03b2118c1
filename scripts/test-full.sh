#!/bin/bash
# The long forms of all tests, each within a time of its own, and what they measured into docs/reliability.md. The
# log stays in build/test-full.log, that of fuzzing in build/fuzz.log.
set -eu -o pipefail

all() {
	go test -tags lab -count=1 -timeout 40m -v ./tests/lab
	# Killing waits most of the time, and fuzzing takes what is left.
	nice -n 19 scripts/fuzz.sh 1m >build/fuzz.log 2>&1 &
	fuzzing=$!
	failed=
	go test -count=1 -timeout 15m -v -run '^TestWhoeverIsKilled' ./tests/e2e -kill.rounds 300 || failed=yes
	wait $fuzzing || failed=yes
	cat build/fuzz.log
	[ -z "$failed" ]
}

all 2>&1 | tee build/test-full.log
go run ./tests/reliability/cmd/reliability build/test-full.log docs/reliability.md
