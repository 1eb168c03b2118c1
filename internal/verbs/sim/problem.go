package sim

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// problem is what is wrong with one key of a scenario.
type problem struct {
	table string // "event", "link" or "fault"; "" at the top level
	index int    // of the table, from 0
	key   string // "" when the table as a whole is meant
	text  string
}

// Error returns the problem without a line number.
func (p *problem) Error() string {
	where := p.key
	if quoted := strconv.Quote(where); quoted != `"`+where+`"` {
		where = quoted // a key may have any character, a line break too
	}
	if p.table != "" {
		where = strings.TrimSpace(fmt.Sprintf("[[%s]] %s", p.table, where))
	}
	return where + ": " + p.text
}

// located puts the scenario's name and the line in front of an error of parse
// or compile, all in one line.
func located(name, text string, err error) error {
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

// line finds the key's line, else its table's, else 0. The TOML decoder keeps
// positions by dotted key, so of an array of tables only the last one's.
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
