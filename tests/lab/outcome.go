package lab

import (
	"regexp"
	"strings"
)

// Outcome is the result of one test of a Go test binary that ran with -test.v.
type Outcome struct {
	// Name is the name of the test, after the names of its parents.
	Name string
	// Verdict is PASS, FAIL, SKIP, or "" for a test that did not end.
	Verdict string
	// Log is the output of the test, as far as the order of lines shows which test printed it.
	Log string
}

var (
	startLine   = regexp.MustCompile(`^=== (?:RUN|CONT|NAME) +(\S*)`)
	verdictLine = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(`)
)

// ParseOutcomes returns the outcomes of tests and subtests from the output of a test binary, in the order in
// which they began. The binary should run with -test.v=test2json, which marks the testing package's own lines
// with ^V. Without it, a test that prints an incomplete line hides the verdict after that line.
func ParseOutcomes(output string) []Outcome {
	p := outcomeParser{index: map[string]int{}}
	for line := range strings.Lines(strings.ReplaceAll(output, "\x16", "\n")) {
		p.line(strings.TrimRight(line, "\r\n"))
	}
	return p.outcomes
}

type outcomeParser struct {
	outcomes []Outcome
	index    map[string]int
	current  string
}

func (p *outcomeParser) line(line string) {
	if m := startLine.FindStringSubmatch(line); m != nil {
		// The output after "=== NAME" without a name belongs to no test.
		if p.current = m[1]; p.current != "" {
			p.at(p.current)
		}
		return
	}
	if m := verdictLine.FindStringSubmatch(line); m != nil {
		p.current = m[2]
		p.at(p.current).Verdict = m[1]
		return
	}
	if p.current != "" && line != "" {
		p.at(p.current).Log += line + "\n"
	}
}

func (p *outcomeParser) at(name string) *Outcome {
	i, ok := p.index[name]
	if !ok {
		i = len(p.outcomes)
		p.index[name] = i
		p.outcomes = append(p.outcomes, Outcome{Name: name})
	}
	return &p.outcomes[i]
}
