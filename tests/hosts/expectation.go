package hosts

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"rdma_events/tests/rig"
)

// expectation is one line of an expected.txt:
//
//	check exit 0                           the exit status of a command
//	doctor has WORDS                       a line of its output has these words in this order; ... stands for any
//	doctor not WORDS                       no line has them
//	points has rdma_port device=a up=1     a point with these tags and fields was emitted
//	points never rdma_port up=0            none was
//
// The subjects are the commands check, doctor, health and status, and the points.
type expectation struct {
	line          string // as it is in the file
	subject, verb string
	rest          string
}

// readExpectations reads a file of expectations. A line that begins with # is a comment, and one that is indented is the reason
// for the line before it: in a differences.txt each line needs one.
func readExpectations(path string, reasons bool) ([]expectation, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []expectation
	reasoned := true
	in := bufio.NewScanner(f)
	for in.Scan() {
		line := in.Text()
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case strings.HasPrefix(line, " "):
			reasoned = true
			continue
		case reasons && !reasoned:
			return nil, fmt.Errorf("%s: %q has no reason", path, all[len(all)-1].line)
		}
		e, err := parseExpectation(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all, reasoned = append(all, e), false
	}
	if reasons && !reasoned {
		return nil, fmt.Errorf("%s: %q has no reason", path, all[len(all)-1].line)
	}
	return all, in.Err()
}

func parseExpectation(line string) (expectation, error) {
	words := strings.SplitN(line, " ", 3)
	allowed := map[string][]string{
		"check": {"exit", "has", "not"}, "doctor": {"exit", "has", "not"}, "status": {"exit", "has", "not"},
		"health": {"exit", "has", "not"}, "points": {"has", "never"},
	}
	if len(words) < 3 || !slices.Contains(allowed[words[0]], words[1]) {
		return expectation{}, fmt.Errorf("expectation %q is not known", line)
	}
	return expectation{line: line, subject: words[0], verb: words[1], rest: words[2]}, nil
}

// seen is what the programs say of a host.
type seen struct {
	output map[string]string // of a command, by its name
	exit   map[string]int
	points []rig.Point
}

// holds reports whether the programs meet the expectation.
func (e *expectation) holds(s *seen) bool {
	switch e.verb {
	case "exit":
		return strconv.Itoa(s.exit[e.subject]) == e.rest
	case "never":
		return !slices.ContainsFunc(s.points, e.matches)
	case "not":
		return !hasWords(s.output[e.subject], e.rest)
	}
	if e.subject == "points" {
		return slices.ContainsFunc(s.points, e.matches)
	}
	return hasWords(s.output[e.subject], e.rest)
}

// matches reports whether a point is the one of the expectation.
func (e *expectation) matches(p rig.Point) bool {
	words := strings.Fields(e.rest)
	if p.Measurement != words[0] {
		return false
	}
	return !slices.ContainsFunc(words[1:], func(w string) bool {
		key, want, _ := strings.Cut(w, "=")
		got, ok := p.Tags[key]
		if field, is := p.Fields[key]; !ok && is {
			got, ok = fmt.Sprint(field), true
		}
		return !ok || got != want
	})
}

// hasWords reports whether a line of text has the words. Runs of spaces count as one, and letters in either case as the same.
func hasWords(text, words string) bool {
	parts := strings.Split(strings.ToLower(words), " ... ")
	for line := range strings.Lines(text) {
		rest := strings.ToLower(strings.Join(strings.Fields(line), " "))
		found := true
		for _, part := range parts {
			var ok bool
			if _, rest, ok = strings.Cut(rest, part); !ok {
				found = false
				break
			}
		}
		if found {
			return true
		}
	}
	return false
}
