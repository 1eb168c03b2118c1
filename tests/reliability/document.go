package reliability

import (
	"fmt"
	"strings"
)

const head = `# Reliability

<!-- Written by tests/reliability; do not edit. -->

What is done to the plugin, what comes of it, what it reports, and the test that has seen it. The tests of
tests/lab/system run on a real kernel in a virtual machine, those of tests/e2e on the simulator, both with the real
programs under real Telegraf. ` + "`make test` runs all of them, `make test-full` the long forms, on two kernels and two\n" +
	"drivers, and writes the figures below. `RDMA_EVENTS_SEED` repeats a schedule of faults by the seed that a test prints." + `
`

// lastRun is the heading from which on the document is about a run.
const lastRun = "## The last run\n"

// Table is the document up to the figures of a run.
func Table() string {
	var b strings.Builder
	b.WriteString(head)
	for _, s := range Faults() {
		fmt.Fprintf(&b, "\n## %s\n\n| fault | what happens | what is reported | test |\n|---|---|---|---|\n", s.Title)
		for _, f := range s.Faults {
			fmt.Fprintf(&b, "| %s | %s | %s | %s in %s |\n", f.What, f.Happens, f.Reported, f.Test, f.Package)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// RunSection is the rest: what a run has measured, and where and when it was.
func RunSection(run *Run, where string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n`make test-full`, %s.\n\n| what | figure |\n|---|---|\n", lastRun, where)
	for _, h := range headlines() {
		fmt.Fprintf(&b, "| %s | %s |\n", h.what, h.of(run))
	}
	b.WriteString("\nAll figures, by test:\n\n| test | what | figure |\n|---|---|---|\n")
	for _, f := range byTest(run.Figures) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", f.Test, f.Key, f.Value)
	}
	return b.String()
}

// Divide returns a document's table, and what it says of the last run; "" when
// there is none yet.
func Divide(document string) (table, run string) {
	at := strings.Index(document, lastRun)
	if at < 0 {
		return document, ""
	}
	return document[:at], document[at:]
}
