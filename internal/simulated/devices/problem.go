package devices

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// problem is an error in one key of a scenario.
type problem struct {
	table string // "event", "link" or "fault"; "" at the top level
	index int    // of the table, from 0
	key   string // "" if it is about the table as a whole
	text  string
}

// Error returns the problem without a line number.
func (p *problem) Error() string {
	where := p.key
	if quoted := strconv.Quote(where); quoted != `"`+where+`"` {
		where = quoted // a key may contain any character, a line break included
	}
	if p.table != "" {
		where = strings.TrimSpace(fmt.Sprintf("[[%s]] %s", p.table, where))
	}
	return where + ": " + p.text
}

// addLocation adds the scenario's name and the line to an error of parseScenario or plan. The
// result is one line.
func addLocation(name, text string, err error) error {
	var bad *problem
	if errors.As(err, &bad) {
		if line := bad.line(text); line > 0 {
			return fmt.Errorf("scenario %s, line %d: %w", name, line, err)
		}
		return fmt.Errorf("scenario %s: %w", name, err)
	}
	var syntax toml.ParseError
	if errors.As(err, &syntax) {
		message, _, _ := strings.Cut(syntax.Message, "\n")
		return fmt.Errorf("scenario %s, line %d: %s", name, syntax.Position.Line, message)
	}
	return fmt.Errorf("scenario %s: %w", name, err)
}

// line returns the line of the key. If it is not found, line returns the line of the
// table, or 0. The TOML decoder stores positions by dotted key, so for an array of tables
// it has only the positions of the last table.
func (p *problem) line(text string) int {
	header := regexp.MustCompile(`^\s*\[\[\s*["']?` + regexp.QuoteMeta(p.table) + `["']?\s*\]\]`)
	key := regexp.MustCompile(`^\s*(\[\[?\s*)?["']?` + regexp.QuoteMeta(p.key) + `["']?\s*[.=\]]`)
	left, found := p.index+1, 0
	if p.table == "" {
		left = 0
	}
	for i, line := range strings.Split(text, "\n") {
		switch {
		case left > 0 && header.MatchString(line):
			if left--; left == 0 {
				found = i + 1
			}
		case left == 0 && p.key != "" && key.MatchString(line):
			return i + 1
		case left == 0 && p.table != "" && strings.HasPrefix(strings.TrimSpace(line), "["):
			return found
		}
	}
	return found
}
