#!/bin/bash
# Runs the long forms of all tests, in parts that take at most 40 minutes each. Each part writes a log outside the
# checkout, in a directory for the commit. The log begins with the commit and ends with the result.
#
#   scripts/test-full.sh          run all parts, one after the other; continue after one that failed
#   scripts/test-full.sh PART     run one part
#   scripts/test-full.sh list     print the parts' names
#   scripts/test-full.sh passed   fail unless the log of every part reports success for this commit
set -eu -o pipefail
cd "$(dirname "$0")/.."

parts="schema rules race release-rxe release-siw backports-rxe backports-siw next-library newest days soak kills cuts hosts fuzz notification fabric fabric-lab fabric-faults fabric-connections fabric-management neighbours pvrdma"

# The tests of the network between hosts that take longest.
fabric_faults='^(TestASevered|TestStopped|TestKilled)'
# The tests of the TCP network between the hosts.
fabric_management='^(TestManagementFaults|TestSoakOfManagementNetwork)'

# A flag that the tests define has to come after their package.
lab() { go test -tags lab -count=1 -v ./tests/lab "$@"; }

part() {
	case $1 in
	schema)
		make test-schema test-chart test-cluster test-loki
		go test -count=1 -tags schema -v -run '^TestProgramsAreInstalled' ./packaging
		;;
	rules) go test -count=1 -timeout 39m -v -run '^(TestEveryRuleFires|TestOneBadLink)' ./tests/grafana ./tests/twins ;;
	race) go test -race -count=1 -timeout 30m ./... ;;
	release-rxe) lab -timeout 39m -run '^(TestGuests|TestRun.*|TestGuestClock.*|TestAPerson.*)$' ;;
	release-siw | backports-rxe | backports-siw | next-library | newest)
		lab -timeout 39m -run "^TestVariants\$/^$1\$" -guest.whole "^$1\$"
		;;
	pvrdma) lab -timeout 39m -run '^TestParavirtualDevice$' ;;
	days) go test -count=1 -timeout 39m -v -run '^Test(Routine|Faults)' ./tests/days -days.engines ;;
	soak) RDMA_EVENTS_SOAK=10m lab -timeout 20m -run '^TestSoak$' ;;
	kills)
		go test -count=1 -timeout 15m -v -run '^(TestKilledProcessIsReplaced|TestKilledWriter|TestNothingIsLostOrTorn)' \
			./tests/e2e ./internal/record/recorder ./internal/device/ledger -kill.rounds 300
		;;
	cuts) lab -timeout 39m -run '^TestRecordsOutliveAPowerCut$' -power.cuts 20 ;;
	hosts) lab -timeout 30m -run '^TestSummaryOfThreeGuestsNamesTheFlap$' ;;
	fuzz) scripts/fuzz.sh 1m ;;
	fabric)
		go test -race -count=1 -v -run Storm ./internal/fabric/exchange -storm.callers 10000
		go test -count=1 -timeout 20m -v ./tests/fabric/soak -soak.seeds 200
		go test -count=1 -timeout 39m -v ./tests/fabric/model -model.runs 1000 -model.minutes 60 -model.prometheus
		;;
	fabric-lab) lab -timeout 39m -run '^TestFabric$' -skip "^TestFabric\$/($fabric_faults|^TestLostConnections|$fabric_management)" ;;
	fabric-faults) lab -timeout 39m -run "^TestFabric\$/$fabric_faults" ;;
	fabric-connections) lab -timeout 39m -run '^TestFabric$/^TestLostConnections' ;;
	fabric-management) lab -timeout 39m -run "^TestFabric\$/$fabric_management" ;;
	neighbours) lab -timeout 39m -run '^TestNeighbours$' ;;
	notification) go test -count=1 -timeout 30m -v -run '^TestEightLinksThatFall' ./assets/prometheus -chain.shipped ;;
	esac
}

commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain)" ] || commit=$commit-changed
logs=${XDG_STATE_HOME:-${HOME:?is not set, and XDG_STATE_HOME neither: nowhere to keep logs}/.local/state}/rdma_events/test-full/$commit

log_of() { echo "$logs/$1.log"; }

# A tag that cannot be released is better found before the tests than after them.
[ "${1:-}" = list ] || scripts/released.sh

run() {
	local began=$SECONDS result=passed log
	log=$(log_of "$1")
	mkdir -p "$logs"
	echo "commit $commit, part $1, $(date -u +%FT%TZ), Linux $(uname -r), $(nproc) processors" >"$log"
	(part "$1") 2>&1 | tee -a "$log" || result=failed
	echo "part $1 $result after $((SECONDS - began)) s" | tee -a "$log"
	echo "its log: $log"
	[ "$result" = passed ]
}

passed() {
	local missing=""
	for p in $parts; do
		tail -n 1 "$(log_of "$p")" 2>/dev/null | grep -q "^part $p passed " || missing="$missing $p"
	done
	[ -z "$missing" ] || {
		echo "commit $commit has no log of success in $logs for:$missing; run: make test-full, or with PART= each of them" >&2
		return 1
	}
}

case ${1:-} in
"")
	failed=""
	for p in $parts; do run "$p" || failed="$failed $p"; done
	[ -z "$failed" ] || {
		echo "failed:$failed" >&2
		exit 1
	}
	;;
list) echo "$parts" | tr ' ' '\n' ;;
passed) passed ;;
*)
	[[ " $parts " == *" $1 "* ]] || {
		echo "make test-full: there is no part $1; there are: $parts" >&2
		exit 2
	}
	run "$1"
	;;
esac
