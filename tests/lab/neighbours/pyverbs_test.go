//go:build guest

package neighbours

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// python is the name of the process that runs the tests.
const python = "/usr/bin/python3.11"

// pyverbsTests is the directory in which Debian's package has the tests.
const pyverbsTests = "/usr/share/doc/rdma-core/tests"

// outcome is how a test of pyverbs ended.
type outcome struct {
	Test    string
	Outcome string // passed, skipped or failed
	Detail  string
}

// TestPyverbs runs rdma-core's own tests, most of which make objects of each kind, send through them and destroy them. What passes alone
// passes beside the plugin.
func TestPyverbs(t *testing.T) {
	var alone map[string]outcome
	inEachCompany(t, func(t *testing.T, s *stage) {
		got := runPyverbs(t, s)
		if s.plugin == nil {
			alone = got
			requireMostPass(t, got)
			return
		}
		requireAsAlone(t, alone, got)
	})
}

// runPyverbs runs all tests and returns their outcomes by name.
func runPyverbs(t *testing.T, s *stage) map[string]outcome {
	t.Helper()
	file := filepath.Join(t.TempDir(), "outcomes")
	script, err := filepath.Abs("testdata/outcomes.py")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p := startProcess(t, nil, python, script, file, pyverbsTests, "--dev", device, "--gid", s.gid)
	status := p.status(t, 8*time.Minute)
	text, err := os.ReadFile(file)
	if err != nil || status != 0 {
		t.Fatalf("the tests of pyverbs ended with %d: %v\n%s", status, err, p.output.String())
	}
	all := map[string]outcome{}
	counts := map[string]int{}
	for lines := json.NewDecoder(bytes.NewReader(text)); lines.More(); {
		var o outcome
		if err := lines.Decode(&o); err != nil {
			t.Fatalf("read the outcomes of pyverbs: %v", err)
		}
		all[o.Test] = o
		counts[o.Outcome]++
	}
	t.Logf("pyverbs: %v in %v", counts, time.Since(began).Round(time.Second))
	return all
}

// requireMostPass requires that the comparison has something to compare, and logs what fails without the plugin.
func requireMostPass(t *testing.T, alone map[string]outcome) {
	t.Helper()
	passed := 0
	for _, o := range alone {
		switch o.Outcome {
		case "passed":
			passed++
		case "failed":
			t.Logf("%s fails alone: %s", o.Test, o.Detail)
		}
	}
	if passed < 80 {
		t.Fatalf("want 80 tests of pyverbs that pass alone, got %d of %d", passed, len(alone))
	}
}

// requireAsAlone requires that each test that passed alone has passed again.
func requireAsAlone(t *testing.T, alone, got map[string]outcome) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(alone)) {
		if alone[name].Outcome == "passed" && got[name].Outcome != "passed" {
			t.Errorf("%s passed alone, and now has %q: %s", name, got[name].Outcome, got[name].Detail)
		}
	}
}
