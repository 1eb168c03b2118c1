package lab

import (
	"regexp"
	"strings"
)

// Outcome is what became of one test of a Go test binary that ran with -test.v.
type Outcome struct {
	// Name is the test's, with its parents' before it.
	Name string
	// Verdict is PASS, FAIL, SKIP, or nothing for a test that never came to its end.
	Verdict string
	// Log is what the test printed, as far as it can be told from the order of lines.
	Log string
}

var (
	startLine   = regexp.MustCompile(`^=== (?:RUN|CONT|NAME) +(\S*)`)
	verdictLine = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(`)
)

// ParseOutcomes reads the output of a test binary, subtests included, in the order in which they began. The
// binary should run with -test.v=test2json, which marks the testing package's own lines by a ^V: without
// it, a test that prints half a line hides the verdict after it.
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
		// "=== NAME" without a name says that what follows belongs to no test.
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
