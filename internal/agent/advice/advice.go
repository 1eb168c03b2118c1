// Package advice contains the table of all commands that the doctor and the alerts advise, with the side effects of
// each. The doctor can advise no other command, and tests compare the texts of the alerts and of
// docs/how-to/troubleshooting.md with the table.
//
// Each command is reviewed before it gets a row. No row may disturb a fabric, such as a command that starts a subnet
// manager or enables an InfiniBand port. No row may assign an address to a network device or create a soft device.
package advice

import (
	"encoding"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Row describes one command of the table.
type Row struct {
	// Form is the command line. {name} stands for one word, and {name...} for several.
	Form string
	// Root reports whether the command needs root.
	Root bool
	// Changes reports whether the command changes something. Other commands only show something.
	Changes bool
	// Risk is the side effect of the command, as in "restarts Telegraf". It is "" if there is none that matters.
	Risk string
}

// Row returns the row of the command. It panics if there is none.
func (c Command) Row() Row { return commandTable()[c] }

// Commands returns all commands.
func Commands() []Command {
	all := make([]Command, 0, len(commandTable()))
	for c := range Command(len(commandTable())) {
		all = append(all, c)
	}
	return all
}

var placeholder = regexp.MustCompile(`\{[a-z]+(\.\.\.)?\}`)

// Line returns the command with its placeholders replaced by values, in order. Placeholders with the same name get the
// same value. It panics if the number of values is wrong.
func (c Command) Line(values ...string) Line {
	row := c.Row()
	known := map[string]string{}
	text := placeholder.ReplaceAllStringFunc(row.Form, func(name string) string {
		if _, ok := known[name]; !ok {
			if len(values) == 0 {
				panic(fmt.Sprintf("advice: %s has no value for %s", row.Form, name))
			}
			known[name], values = values[0], values[1:]
		}
		return known[name]
	})
	if len(values) > 0 {
		panic(fmt.Sprintf("advice: %s has no place for %q", row.Form, values))
	}
	return Line{text: text, row: row}
}

// Line is a command of the table with its values. The zero Line stands for no command.
type Line struct {
	text string
	row  Row
}

var _ encoding.TextMarshaler = Line{}

// For returns the line as the user with this ID must type it, with sudo if necessary.
func (l Line) For(uid int) Line {
	switch {
	case !l.row.Root || uid == 0:
	case strings.ContainsAny(l.text, ";&|>'"):
		l.text = "sudo sh -c " + strconv.Quote(l.text)
	default:
		l.text = "sudo " + l.text
	}
	return l
}

// String returns the command line, or "" for no command.
func (l Line) String() string { return l.text }

// IsZero reports whether the line stands for no command.
func (l Line) IsZero() bool { return l.text == "" }

// MarshalText implements encoding.TextMarshaler.
func (l Line) MarshalText() ([]byte, error) { return []byte(l.text), nil }

// Changes reports whether the command changes something.
func (l Line) Changes() bool { return l.row.Changes }

// Risk returns the side effect of the command, or "" if there is none that matters.
func (l Line) Risk() string { return l.row.Risk }

// Find returns the command of the table that matches a command line, with or without sudo.
func Find(text string) (Command, bool) {
	text = strings.TrimPrefix(text, "sudo ")
	if quoted, ok := strings.CutPrefix(text, "sh -c "); ok {
		if command, err := strconv.Unquote(quoted); err == nil {
			text = command
		}
	}
	for _, c := range Commands() {
		if c.Row().Form == text {
			return c, true
		}
	}
	for _, c := range Commands() {
		if c.Row().pattern().MatchString(text) {
			return c, true
		}
	}
	return 0, false
}

// The patterns for placeholders. No match can end the command, and a single word is never a flag.
const (
	oneWord  = `[^-\s;&|<>][^\s;&|<>]*`
	anyWords = `[^\s;&|<>]+( [^\s;&|<>]+)*`
)

func (r Row) pattern() *regexp.Regexp {
	var b strings.Builder
	at := 0
	for _, p := range placeholder.FindAllStringIndex(r.Form, -1) {
		b.WriteString(regexp.QuoteMeta(r.Form[at:p[0]]))
		if strings.HasSuffix(r.Form[:p[1]], "...}") {
			b.WriteString(anyWords)
		} else {
			b.WriteString(oneWord)
		}
		at = p[1]
	}
	return regexp.MustCompile("^" + b.String() + regexp.QuoteMeta(r.Form[at:]) + "$")
}
