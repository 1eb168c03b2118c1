package lab

import (
	"reflect"
	"testing"
)

func TestParseOutcomes(t *testing.T) {
	for _, c := range []struct {
		name, output string
		want         []Outcome
	}{
		{"nothing ran", "testing: warning: no tests to run\nPASS\n", nil},
		{"passed", "=== RUN   TestA\n--- PASS: TestA (0.01s)\nPASS\n",
			[]Outcome{{Name: "TestA", Verdict: "PASS", Log: "PASS\n"}}},
		{"skipped subtest with a reason", "=== RUN   TestA\n=== RUN   TestA/x\n    a_test.go:1: no device\n" +
			"--- PASS: TestA (0.01s)\n    --- SKIP: TestA/x (0.00s)\n",
			[]Outcome{{Name: "TestA", Verdict: "PASS"},
				{Name: "TestA/x", Verdict: "SKIP", Log: "    a_test.go:1: no device\n"}}},
		{"never ended", "=== RUN   TestA\npanic: oh\n", []Outcome{{Name: "TestA", Log: "panic: oh\n"}}},
		{"half a line before the verdict", "\x16=== RUN   TestA\nhalf\x16--- FAIL: TestA (0.00s)\n",
			[]Outcome{{Name: "TestA", Verdict: "FAIL", Log: "half\n"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ParseOutcomes(c.output); !reflect.DeepEqual(c.want, got) {
				t.Errorf("want %+v, got %+v", c.want, got)
			}
		})
	}
}
