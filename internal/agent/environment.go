package agent

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Expand replaces $NAME and ${NAME} in the text of a configuration by environment variables, as Telegraf's shim does:
// it replaces them everywhere, also in comments, and escapes the values for a TOML string. An unset variable becomes
// ${NAME}, which Parse rejects as part of a value. The shim would insert an empty text, which turns options off. lookup
// is usually os.LookupEnv.
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

var unsetPattern = regexp.MustCompile(`\$\{([^{}]+)\}`)

// findUnsetVariable returns the name of the first unset variable in a TOML value, or "" if there is none.
func findUnsetVariable(value any) string {
	switch value := value.(type) {
	case string:
		if m := unsetPattern.FindStringSubmatch(value); m != nil {
			return m[1]
		}
	case []any:
		for _, v := range value {
			if name := findUnsetVariable(v); name != "" {
				return name
			}
		}
	}
	return ""
}

// nodeNameVariable is the environment variable with the name of a pod's node. The manifests in packaging/kubernetes set
// it.
const nodeNameVariable = "NODE_NAME"

// hostName returns the name of this host. In a pod it returns the name of the node, because a pod gets a new name
// whenever it is replaced.
func hostName() (string, error) {
	if name := os.Getenv(nodeNameVariable); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the host's name: %w", err)
	}
	return name, nil
}
