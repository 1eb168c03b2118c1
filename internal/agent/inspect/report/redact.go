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

// removed replaces a removed value.
const removed = "removed"

// ErrNoSections is the error of Redact for a file without the plugin's configuration.
var ErrNoSections = errors.New("it has no [[inputs.rdma_events]]")

// secretWords are parts of words, in lower case, that indicate a secret next to them.
var secretWords = []string{"token", "pass", "pwd", "key", "secret", "credential", "auth", "cookie", "bearer", "signature"}

// Redacted is the part of a configuration that Redact keeps.
type Redacted struct {
	Text    string   // TOML, without comments
	Removed []string // the places of values that were removed, as in "inputs.rdma_events[0].token"
}

// Redact returns the plugin's own sections of a configuration file, without secrets, comments and all other sections.
// known contains the names of the plugin's options, as in "probe.interval". For an option that is not among them only
// the name is kept, because its value may contain a secret in any form. For a known option the value is removed if it
// may contain a secret or if it is a table. Variables of the environment are kept as they are, because text has not
// been expanded. The error never quotes the file.
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
	r := redactor{known: known}
	own = r.redactInstances("inputs.rdma_events", own)
	var b bytes.Buffer
	e := toml.NewEncoder(&b)
	e.Indent = "  "
	if err := e.Encode(map[string]any{"inputs": map[string]any{"rdma_events": own}}); err != nil {
		return Redacted{}, errors.New("it cannot be written as TOML again")
	}
	return Redacted{Text: b.String(), Removed: r.places}, nil
}

// parseError returns an error with the number of the line only, because the parser's message quotes the text.
func parseError(err error) error {
	var syntax toml.ParseError
	if errors.As(err, &syntax) {
		return fmt.Errorf("it is no TOML: line %d, before variables of the environment are put in", syntax.Position.Line)
	}
	return errors.New("it is no TOML, before variables of the environment are put in")
}

// redactor replaces values and collects their places.
type redactor struct {
	known  []string
	places []string
}

// removeValue returns the replacement for a value, and remembers its place.
func (r *redactor) removeValue(place string) any {
	r.places = append(r.places, place)
	return removed
}

// redactInstances returns the plugin's sections. A file that Telegraf accepts has only one.
func (r *redactor) redactInstances(place string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		return r.redactSection(place, "", v)
	case []map[string]any:
		for i := range v {
			v[i] = r.redactSection(fmt.Sprintf("%s[%d]", place, i), "", v[i])
		}
		return v
	case []any:
		for i := range v {
			v[i] = r.redactInstances(fmt.Sprintf("%s[%d]", place, i), v[i])
		}
		return v
	}
	return r.removeValue(place)
}

// redactSection returns the options of a section. prefix is the prefix of their names: "", or as in "probe.".
func (r *redactor) redactSection(place, prefix string, options map[string]any) map[string]any {
	clean := map[string]any{}
	for _, key := range sortedKeys(options) {
		name := prefix + toml.Key{key}.String()
		at := place + "." + toml.Key{key}.String()
		section, isSection := options[key].(map[string]any)
		switch {
		case slices.Contains(r.known, name):
			clean[key] = r.redactValue(at, name, options[key])
		case isSection && r.isSection(name+"."):
			clean[key] = r.redactSection(at, name+".", section)
		default:
			if holdsSecret(strings.ReplaceAll(key, " ", "")) { // for example an HTTP header instead of a name
				key, at = removed, place+"."+removed
			}
			clean[key] = r.removeValue(at)
		}
	}
	return clean
}

func (r *redactor) isSection(prefix string) bool {
	return slices.ContainsFunc(r.known, func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// redactValue returns the value of a known option, or its replacement.
func (r *redactor) redactValue(place, name string, v any) any {
	switch v := v.(type) {
	case map[string]any, []map[string]any:
		return r.removeValue(place)
	case []any:
		for i := range v {
			v[i] = r.redactValue(fmt.Sprintf("%s[%d]", place, i), name, v[i])
		}
	case string:
		if hasSecretWord(name) && !isKeyFile(name, v) || holdsSecret(v) {
			return r.removeValue(place)
		}
	default:
		if hasSecretWord(name) && name != "probe.pkey_index" {
			return r.removeValue(place)
		}
	}
	return v
}

// hasSecretWord reports whether a text contains a word for a secret.
func hasSecretWord(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(text, word) })
}

// holdsSecret reports whether a text may contain a secret. It looks for the user information of a URL, or a word for a
// secret together with a character that separates it from a value, as in assignments, headers, command lines and JSON.
func holdsSecret(text string) bool {
	return userInfo.MatchString(text) || hasSecretWord(text) && strings.ContainsAny(text, "=:,;{}\"'` \t\r\n")
}

// isKeyFile reports whether the value of an option that names the file of a key is a path.
func isKeyFile(name, value string) bool {
	return (name == "fabric.key_file" || name == "fabric.tls_key") && keyPath.MatchString(value)
}

// keyPath matches an absolute path with at least two names. The usual text forms of keys do not match: hexadecimal
// digits contain no slash, and Base64 ends with a character that is not allowed here.
var keyPath = regexp.MustCompile(`^(/[A-Za-z0-9._@-]+){2,}$`)

// userInfo matches the user information of a URL. It extends to the last @, because a password may contain characters
// that are not allowed there.
var userInfo = regexp.MustCompile(`(?s)://.*@`)
