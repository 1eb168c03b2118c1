#!/bin/bash
# Runs the tests of a push that make test does not run. ROTATION names a long form to run instead of the one in turn.
set -eu -o pipefail
cd "$(dirname "$0")/.."
turn=${ROTATION:-$(scripts/rotation.sh)}
echo "the long form whose turn it is: $turn"

# A flag that the tests define has to come after their package.
lab() { go test -tags lab -count=1 -v ./tests/lab "$@" 2>&1 | awk -f scripts/failures-last.awk; }

long_form() {
	lab -timeout 30m -run "^TestVariants\$|^TestLongForms\$/^$1\$"
}

variants() { lab -timeout 30m -short -run '^TestVariants$' "$@"; }

case $turn in
soak)
	variants
	RDMA_EVENTS_SOAK=3m lab -timeout 20m -run '^TestSoak$'
	;;
kills)
	variants
	go test -count=1 -timeout 15m -v -run '^TestKilledProcessIsReplaced' ./tests/e2e -kill.rounds 60
	;;
fuzz/*)
	variants
	scripts/fuzz.sh 5s "${turn#*/}"
	;;
management)
	variants
	lab -timeout 15m -short -run '^TestFabric$/^TestSoakOfManagementNetwork$' -guest.run '^TestSoakOfManagementNetwork$'
	;;
rules)
	variants
	go test -count=1 -timeout 20m -v -run '^(TestEveryRuleFires|TestOneBadLink)' ./tests/grafana ./tests/twins
	;;
harness) lab -timeout 30m -run '^(TestVariants|TestRun.*|TestGuestClock.*|TestAPerson.*)$' ;;
slow/programs)
	variants
	make test-slow
	;;
slow/*)
	variants
	lab -timeout 30m -run '^TestSlow$' -guest.share "${turn#*/}" -guest.shares 12
	;;
storm) long_form TestAStormIsCountedToTheLastEvent ;;
stopped) long_form TestAStoppedTelegrafHoldsUpNoReader ;;
churn) long_form TestHundredAddsAndDeletesLeaveNothingBehind ;;
addresses) long_form TestReaddedAddressKeepsItsIndex ;;
hardware) long_form 'TestHardwareIs.*' ;;
report) long_form TestTheReportOfABadDay ;;
tracer)
	variants
	lab -timeout 30m -run '^TestGuests$/^internal/applications/ebpf'
	;;
successor) long_form TestKilledProcessLeavesNothingAndSuccessorReportsGap ;;
*) variants -guest.whole "^${turn%/*}\$" -guest.share "${turn#*/}" ;;
esac
