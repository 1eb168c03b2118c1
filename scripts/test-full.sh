#!/bin/bash
# The long forms of all tests, each within a time of its own, and what they measured into docs/reliability.md. The
# logs stay in build: test-full.log has all of it.
set -eu -o pipefail

lab() { go test -tags lab -count=1 -v "$@" ./tests/lab; }

# long_forms lists the guest's tests that have one, for a regular expression. The others of TestGuest are make test's.
long_forms() {
	awk '/^func Test/ {sub(/\(.*/, ""); name = $2} /testing\.Short\(\)/ {print "^" name "$"}' tests/lab/system/*_test.go |
		sort -u | paste -s -d '|'
}

# at_once runs what waits most of the time, or takes what is left of the processors.
at_once() {
	nice -n 19 scripts/fuzz.sh 1m >build/fuzz.log 2>&1 &
	local fuzz=$! failed=
	lab -timeout 20m -run '^TestSoak$' || failed=yes
	go test -count=1 -timeout 15m -v -run '^TestWhoeverIsKilled' ./tests/e2e -kill.rounds 300 || failed=yes
	wait "$fuzz" || failed=yes
	cat build/fuzz.log
	[ -z "$failed" ]
}

all() {
	RDMA_EVENTS_LAB_RUN=$(long_forms) lab -timeout 20m -run '^TestGuest$/tests/lab/system'
	lab -timeout 50m -run '^TestGuestMatrix$|^TestGuestWithTheNextLibrary$|^TestGuestOnTheNewestKernel$'
	at_once
}

all 2>&1 | tee build/test-full.log
go run ./tests/reliability/cmd/reliability build/test-full.log docs/reliability.md
