package reliability

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rdma_events/tests/lab"
)

// Figure is what a test has printed by rig.Reliability.
type Figure struct {
	Test, Key, Value string
}

// Run is what the log of a run says.
type Run struct {
	Figures []Figure // in the order of the log
	Passed  int      // tests, those in a guest and subtests among them
	Failed  []string
}

var (
	figureLine = regexp.MustCompile(`reliability: ([^:]+): (.+)$`)
	innerTest  = regexp.MustCompile(`guest\| === (?:RUN|NAME|CONT) +([^\s/]+)`)
)

// scripts stands for the test in figures that a script prints.
const scripts = "scripts"

// Read reads the output of go test -v, with that of the guests in it, and of
// scripts that print figures of their own.
func Read(log string) Run {
	var run Run
	for _, o := range lab.ParseOutcomes("=== RUN   " + scripts + "\n" + log) {
		switch o.Verdict {
		case "PASS":
			run.Passed++
		case "FAIL":
			run.Failed = append(run.Failed, o.Name)
		}
		run.Figures = append(run.Figures, figures(o)...)
	}
	return run
}

func figures(o lab.Outcome) []Figure {
	var found []Figure
	test := o.Name
	for line := range strings.Lines(o.Log) {
		if strings.HasPrefix(line, "reliability:") {
			test = scripts // what a test prints is indented
		}
		if m := innerTest.FindStringSubmatch(line); m != nil {
			test = o.Name + "/" + m[1]
		}
		if m := figureLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			found = append(found, Figure{test, m[1], strings.TrimSuffix(strings.TrimSpace(m[2]), ",")})
		}
	}
	return found
}

// headline is a figure that is made of those of several tests.
type headline struct {
	what string
	of   func(run *Run) string
}

func headlines() []headline {
	return []headline{
		{"tests that passed, parts of tests included", func(run *Run) string { return strconv.Itoa(run.Passed) }},
		{"faults that were tried, and survived", sum("faults")},
		{"events injected", sum("injected")},
		{"events counted", sum("counted")},
		{"worst delay of an administrator's command", worst("worst delay")},
		{"worst recovery", worst("worst recovery")},
		{"growth over the soak", each("growth")},
	}
}

const notMeasured = "not measured in this run"

// number is a figure that is one, or a part of a list as in "3 times this, 2 times that".
var number = regexp.MustCompile(`^(\d+)$|(\d+) times`)

// sum adds up the numbers of the figures whose key has a word in it.
func sum(word string) func(*Run) string {
	return func(run *Run) string {
		var all, n int64
		for _, f := range run.Figures {
			if !strings.Contains(f.Key, word) {
				continue
			}
			for _, m := range number.FindAllStringSubmatch(f.Value, -1) {
				v, _ := strconv.ParseInt(m[1]+m[2], 10, 64) // digits alone
				all += v
				n++
			}
		}
		if n == 0 {
			return notMeasured
		}
		return strconv.FormatInt(all, 10)
	}
}

// each lists the figures whose key has a word in it.
func each(word string) func(*Run) string {
	return func(run *Run) string {
		var found []string
		for _, f := range run.Figures {
			if strings.Contains(f.Key, word) {
				found = append(found, f.Key+": "+f.Value)
			}
		}
		if found == nil {
			return notMeasured
		}
		return strings.Join(found, "<br>")
	}
}

// worst is the longest of the durations whose key has a word in it, and whose it is.
func worst(word string) func(*Run) string {
	return func(run *Run) string {
		var longest time.Duration
		says := notMeasured
		for _, f := range run.Figures {
			if d, err := time.ParseDuration(f.Value); err == nil && strings.Contains(f.Key, word) && d >= longest {
				longest, says = d, fmt.Sprintf("%v (%s)", d, f.Key)
			}
		}
		return says
	}
}

// byTest sorts figures by test and leaves the order of each one's as it is.
func byTest(all []Figure) []Figure {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b Figure) int { return strings.Compare(a.Test, b.Test) })
	return sorted
}
