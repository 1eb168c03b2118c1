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

// secret are parts of names, in lower case, whose values are never shown.
var secret = []string{"token", "pass", "pwd", "key", "secret", "credential", "auth", "cookie", "bearer", "signature"}

// filters are options of every input that have such a part in their names and hold none.
var filters = []string{"namepass", "fieldpass", "tagpass", "metricpass", "namepass_separator"}

// Redacted is what Redact leaves of a configuration.
type Redacted struct {
	Text    string   // TOML, without comments
	Removed []string // the places of values that were removed, as in "inputs.rdma_events[0].token"
}

// Redact returns the plugin's own sections of a configuration file without secrets: without the
// values of keys whose names have a word for one, and without the user information of URLs. All
// other sections are left out, and so are comments. Variables of the environment stay what they
// are, since text has not been expanded. The error never quotes the file.
func Redact(text string) (Redacted, error) {
	var file map[string]any
	if _, err := toml.Decode(text, &file); err != nil {
		return Redacted{}, parseError(err)
	}
	inputs, _ := file["inputs"].(map[string]any)
	own, ok := inputs["rdma_events"]
	if !ok {
		return Redacted{}, ErrNoSections
	}
	var r redaction
	own = r.value("inputs.rdma_events", own)
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

// redaction replaces secrets and collects their places.
type redaction struct{ places []string }

func (r *redaction) value(place string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			at := place + "." + toml.Key{key}.String()
			if isSecret(key) && !isKnown(at, v[key]) {
				v[key] = removed
				r.places = append(r.places, at)
				continue
			}
			v[key] = r.value(at, v[key])
		}
	case []map[string]any:
		for i := range v {
			r.value(fmt.Sprintf("%s[%d]", place, i), v[i]) // changes the map itself
		}
	case []any:
		for i := range v {
			at := fmt.Sprintf("%s[%d]", place, i)
			if i > 0 && isSecretFlag(v[i-1]) {
				v[i] = removed
				r.places = append(r.places, at)
				continue
			}
			v[i] = r.value(at, v[i])
		}
	case string:
		clean := withoutSecrets(v)
		if clean != v {
			r.places = append(r.places, place)
		}
		return clean
	}
	return v
}

func isSecret(name string) bool {
	name = strings.ToLower(name)
	if slices.Contains(filters, name) {
		return false
	}
	for _, word := range secret {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// isSecretFlag reports whether an element of an array is an option of a command line that has a
// secret as its value in the next one.
func isSecretFlag(v any) bool {
	flag, _ := v.(string)
	return strings.HasPrefix(flag, "-") && !strings.ContainsAny(flag, "= \t:") && isSecret(flag)
}

// isKnown reports whether an option of the plugin has a word for a secret in its name and holds none: the index of a P_Key, and
// the file that has a key.
func isKnown(place string, value any) bool {
	switch v := value.(type) {
	case int64:
		return strings.HasSuffix(place, ".pkey_index")
	case string:
		return (strings.HasSuffix(place, ".fabric.key_file") || strings.HasSuffix(place, ".fabric.tls_key")) && pathOfKey.MatchString(v)
	}
	return false
}

// pathOfKey is an absolute path of two names or more. The texts in which keys are mostly written are none: digits have no slash, and
// Base64 ends with a sign that is not here.
var pathOfKey = regexp.MustCompile(`^(/[A-Za-z0-9._@-]+){2,}$`)

var (
	// userInfo is what stands before the host of a URL. A password may contain what does not
	// belong there, so it goes to the last @ of the word.
	userInfo = regexp.MustCompile(`://[^\s"'<>]*@`)
	// assignments are those in a query of a URL, and in a variable of an environment.
	assignments = regexp.MustCompile(`([A-Za-z0-9_.%-]+)=([^&;\s"']*)`)
	// headers are those of HTTP: to the end.
	headers = regexp.MustCompile(`([A-Za-z0-9_.-]+)\s*:\s[^\n]+`)
	// flags are options of a command line with their values.
	flags = regexp.MustCompile(`((?:^|\s)-[A-Za-z0-9_.-]+)\s+\S+`)
)

// withoutSecrets returns a value without the secrets that stand in it.
func withoutSecrets(text string) string {
	text = userInfo.ReplaceAllString(text, "://"+removed+"@")
	for _, one := range []struct {
		named *regexp.Regexp
		sign  string
	}{{flags, " "}, {headers, ": "}} {
		text = one.named.ReplaceAllStringFunc(text, func(found string) string {
			name := one.named.FindStringSubmatch(found)[1]
			if !isSecret(name) {
				return found
			}
			return name + one.sign + removed
		})
	}
	return assignments.ReplaceAllStringFunc(text, func(one string) string {
		name, _, _ := strings.Cut(one, "=")
		if !isSecret(name) {
			return one
		}
		return name + "=" + removed
	})
}
