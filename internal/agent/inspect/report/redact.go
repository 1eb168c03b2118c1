package report

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// removed stands in the place of a value.
const removed = "removed"

// ErrNoSections is the error of Redact for a file without the plugin's configuration.
var ErrNoSections = errors.New("it has no [[inputs.rdma_events]]")

// secret are parts of words, in lower case, beside which a secret may stand.
var secret = []string{"token", "pass", "pwd", "key", "secret", "credential", "auth", "cookie", "bearer", "signature"}

// Redacted is what Redact leaves of a configuration.
type Redacted struct {
	Text    string   // TOML, without comments
	Removed []string // the places of values that were removed, as in "inputs.rdma_events[0].token"
}

// Redact returns the plugin's own sections of a configuration file without secrets. known are the names of its options, as in
// "probe.interval". Of an option that is not among them only the name is left, since its value may hold a secret in any form. Of
// the known ones the values are left out that may hold one or that are tables. All other sections and comments are left out.
// Variables of the environment stay what they are, since text has not been expanded. The error never quotes the file.
func Redact(text string, known []string) (Redacted, error) {
	var file map[string]any
	if _, err := toml.Decode(text, &file); err != nil {
		return Redacted{}, parseError(err)
	}
	inputs, _ := file["inputs"].(map[string]any)
	own, ok := inputs["rdma_events"]
	if !ok {
		return Redacted{}, ErrNoSections
	}
	r := redaction{known: known}
	own = r.instances("inputs.rdma_events", own)
	var b bytes.Buffer
	e := toml.NewEncoder(&b)
	e.Indent = "  "
	if err := e.Encode(map[string]any{"inputs": map[string]any{"rdma_events": own}}); err != nil {
		return Redacted{}, errors.New("it cannot be written as TOML again")
	}
	return Redacted{Text: b.String(), Removed: r.places}, nil
}

// parseError returns an error with the line alone: the parser's message quotes the text.
func parseError(err error) error {
	var syntax toml.ParseError
	if errors.As(err, &syntax) {
		return fmt.Errorf("it is no TOML: line %d, before variables of the environment are put in", syntax.Position.Line)
	}
	return errors.New("it is no TOML, before variables of the environment are put in")
}

// redaction replaces values and collects their places.
type redaction struct {
	known  []string
	places []string
}

// remove returns the text in the place of a value.
func (r *redaction) remove(place string) any {
	r.places = append(r.places, place)
	return removed
}

// instances returns the plugin's sections, of which a file that Telegraf accepts has one.
func (r *redaction) instances(place string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		return r.section(place, "", v)
	case []map[string]any:
		for i := range v {
			v[i] = r.section(fmt.Sprintf("%s[%d]", place, i), "", v[i])
		}
		return v
	case []any:
		for i := range v {
			v[i] = r.instances(fmt.Sprintf("%s[%d]", place, i), v[i])
		}
		return v
	}
	return r.remove(place)
}

// section returns the options of a section. prefix is that of their names: "", or as in "probe.".
func (r *redaction) section(place, prefix string, options map[string]any) map[string]any {
	clean := map[string]any{}
	for _, key := range sortedKeys(options) {
		name := prefix + toml.Key{key}.String()
		at := place + "." + toml.Key{key}.String()
		section, isSection := options[key].(map[string]any)
		switch {
		case slices.Contains(r.known, name):
			clean[key] = r.value(at, name, options[key])
		case isSection && r.isSection(name+"."):
			clean[key] = r.section(at, name+".", section)
		default:
			if holdsSecret(strings.ReplaceAll(key, " ", "")) { // as a header in the place of a name
				key, at = removed, place+"."+removed
			}
			clean[key] = r.remove(at)
		}
	}
	return clean
}

func (r *redaction) isSection(prefix string) bool {
	return slices.ContainsFunc(r.known, func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// value returns the value of a known option.
func (r *redaction) value(place, name string, v any) any {
	switch v := v.(type) {
	case map[string]any, []map[string]any:
		return r.remove(place)
	case []any:
		for i := range v {
			v[i] = r.value(fmt.Sprintf("%s[%d]", place, i), name, v[i])
		}
	case string:
		if isWord(name) && !isKeyFile(name, v) || holdsSecret(v) {
			return r.remove(place)
		}
	default:
		if isWord(name) && name != "probe.pkey_index" {
			return r.remove(place)
		}
	}
	return v
}

// isWord reports whether a text has a word for a secret.
func isWord(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(secret, func(word string) bool { return strings.Contains(text, word) })
}

// holdsSecret reports whether a text may hold a secret: the user information of a URL, or a word for a secret and something that
// separates it from a value, as in assignments, headers, command lines and JSON.
func holdsSecret(text string) bool {
	return userInfo.MatchString(text) || isWord(text) && strings.ContainsAny(text, "=:,;{}\"'` \t\r\n")
}

// isKeyFile reports whether the value of an option that names the file of a key is a path.
func isKeyFile(name, value string) bool {
	return (name == "fabric.key_file" || name == "fabric.tls_key") && pathOfKey.MatchString(value)
}

// pathOfKey is an absolute path of two names or more. The texts in which keys are mostly written are none: digits have no slash, and
// Base64 ends with a sign that is not here.
var pathOfKey = regexp.MustCompile(`^(/[A-Za-z0-9._@-]+){2,}$`)

// userInfo is the user information of a URL. A password may contain what does not belong there, so it goes to the last @.
var userInfo = regexp.MustCompile(`(?s)://.*@`)
