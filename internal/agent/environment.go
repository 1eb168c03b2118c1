package agent

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Expand puts variables of the environment into the text of a configuration, as
// Telegraf's shim does: $NAME and ${NAME}, everywhere, escaped for a TOML string. An unset
// variable becomes ${NAME}, which Parse refuses as a value. The shim would put an empty
// text there, which turns options off. lookup is os.LookupEnv.
func Expand(text string, lookup func(name string) (value string, ok bool)) string {
	escape := strings.NewReplacer(`"`, `\"`, `\`, `\\`)
	return os.Expand(text, func(name string) string {
		value, ok := lookup(name)
		if !ok {
			return "${" + name + "}"
		}
		return escape.Replace(value)
	})
}

var unset = regexp.MustCompile(`\$\{([^{}]+)\}`)

// unsetIn returns the name of the first unset variable in a value of TOML, "" for none.
func unsetIn(value any) string {
	switch value := value.(type) {
	case string:
		if m := unset.FindStringSubmatch(value); m != nil {
			return m[1]
		}
	case []any:
		for _, v := range value {
			if name := unsetIn(v); name != "" {
				return name
			}
		}
	}
	return ""
}

// nodeName names the variable that has the name of a pod's node, as in packaging/kubernetes.
const nodeName = "NODE_NAME"

// hostName returns the name of this host. In a pod that is the name of its node: a pod has another one after each replacement.
func hostName() (string, error) {
	if name := os.Getenv(nodeName); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the host's name: %w", err)
	}
	return name, nil
}
