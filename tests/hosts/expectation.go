package hosts

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"rdma_events/tests/rig"
)

// expectation is one line of an expected.txt:
//
//	check exit 0                           the exit status of a command
//	doctor has WORDS                       a line of its output has these words in this order; ... stands for any
//	doctor not WORDS                       no line has them
//	points has rdma_port device=a up=1     a point with these tags and fields was emitted
//	points never rdma_port up=0            none was
//	points only rdma_port device=a,b       the values of this tag or field in the points are these, and all of them
//
// The subjects are the commands check, doctor, health and status, and the points. The commands run after the last event of the
// host, and "has" is about points since then; "never" and "only" are about all points. Which alerts a host raises is what its
// health says.
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
		"health": {"exit", "has", "not"}, "points": {"has", "never", "only"},
	}
	if len(words) < 3 || !slices.Contains(allowed[words[0]], words[1]) {
		return expectation{}, fmt.Errorf("expectation %q is not known", line)
	}
	e := expectation{line: line, subject: words[0], verb: words[1], rest: words[2]}
	if fields := strings.Fields(e.rest); e.verb == "only" && (len(fields) != 2 || !strings.Contains(fields[1], "=")) {
		return expectation{}, fmt.Errorf("expectation %q needs a measurement and one tag", line)
	}
	return e, nil
}

// seen is what the programs say of a host.
type seen struct {
	output map[string]string // of a command, by its name
	exit   map[string]int
	points []rig.Point
	since  int // how many points came before the last event of the host
}

// span returns the time between the first and the last point since the last event.
func (s *seen) span() time.Duration {
	first, last := int64(math.MaxInt64), int64(0)
	for _, p := range s.points[s.since:] {
		first, last = min(first, p.Time), max(last, p.Time)
	}
	return time.Duration(max(0, last-first))
}

// holds reports whether the programs meet the expectation.
func (e *expectation) holds(s *seen) bool {
	switch e.verb {
	case "exit":
		return strconv.Itoa(s.exit[e.subject]) == e.rest
	case "never":
		return !slices.ContainsFunc(s.points, e.matches)
	case "only":
		return e.only(s.points)
	case "not":
		return !hasWords(s.output[e.subject], e.rest)
	}
	if e.subject == "points" {
		return slices.ContainsFunc(s.points[s.since:], e.matches)
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
		got, ok := valueOf(p, key)
		return !ok || got != want
	})
}

// only reports whether the points of the measurement have all the values that are listed, and no others.
func (e *expectation) only(points []rig.Point) bool {
	measurement, list, _ := strings.Cut(e.rest, " ")
	key, values, _ := strings.Cut(list, "=")
	got := map[string]bool{}
	for _, p := range points {
		if value, ok := valueOf(p, key); ok && p.Measurement == measurement {
			got[value] = true
		}
	}
	want := strings.Split(values, ",")
	return len(got) == len(want) && !slices.ContainsFunc(want, func(v string) bool { return !got[v] })
}

// valueOf returns a tag of a point, or a field as text.
func valueOf(p rig.Point, key string) (string, bool) {
	if tag, ok := p.Tags[key]; ok {
		return tag, true
	}
	field, ok := p.Fields[key]
	return fmt.Sprint(field), ok
}

// hasWords reports whether a line of text has the words, the first of which begins a word there: "ip addr" is not in "SKIP
// addresses". Runs of spaces count as one, and letters in either case as the same.
func hasWords(text, words string) bool {
	parts := strings.Split(strings.ToLower(words), " ... ")
	for line := range strings.Lines(text) {
		rest := strings.ToLower(strings.Join(strings.Fields(line), " "))
		found := true
		for _, part := range parts {
			var ok bool
			if rest, ok = behindWord(rest, part); !ok {
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

// behindWord returns what comes behind the first place in a line where a part of it begins a word.
func behindWord(line, part string) (rest string, ok bool) {
	first, _ := utf8.DecodeRuneInString(part)
	for at := 0; ; at++ {
		i := strings.Index(line[at:], part)
		if i < 0 {
			return "", false
		}
		at += i
		before, _ := utf8.DecodeLastRuneInString(line[:at])
		if !unicode.IsLetter(first) || !unicode.IsLetter(before) {
			return line[at+len(part):], true
		}
	}
}
