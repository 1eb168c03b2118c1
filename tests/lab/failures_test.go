package lab

import (
	"os/exec"
	"strings"
	"testing"
)

func TestFailuresAreRepeatedAtTheEnd(t *testing.T) {
	const output = `=== RUN   TestGuests
=== RUN   TestGuests/system
    guest| a long output
=== RUN   TestGuests/system/TestA
    suite_test.go:184: failed in the guest:
        want 50 flaps, got 49
=== RUN   TestGuests/system/TestB
    suite_test.go:180: a reason
--- FAIL: TestGuests (0.00s)
    --- FAIL: TestGuests/system (0.00s)
        --- FAIL: TestGuests/system/TestA (0.00s)
        --- SKIP: TestGuests/system/TestB (0.00s)
FAIL
`
	const repeated = `== what failed, and what it logged:
--- TestGuests
--- TestGuests/system
--- TestGuests/system/TestA
    suite_test.go:184: failed in the guest:
        want 50 flaps, got 49
`
	if got := repeatFailures(t, output); got != output+repeated {
		t.Errorf("got:\n%s", got)
	}
	const passed = "=== RUN   TestA\n--- PASS: TestA (0.00s)\nok\n"
	if got := repeatFailures(t, passed); got != passed {
		t.Errorf("got:\n%s", got)
	}
}

func repeatFailures(t *testing.T, output string) string {
	t.Helper()
	awk := exec.CommandContext(t.Context(), "awk", "-f", "../../scripts/failures-last.awk")
	awk.Stdin = strings.NewReader(output)
	text, err := awk.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
