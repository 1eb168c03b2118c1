// Package document replaces the generated parts of the project's documents. A part stands between two comments: the
// first begins with "<!-- Begin of NAME:" and says what makes the part, the last is "<!-- End of NAME. -->".
package document

import (
	"fmt"
	"os"
	"strings"
)

// Replace returns text with part in the place of the part called name. The error is
// that text does not have the two comments.
func Replace(text, name, part string) (string, error) {
	begin, end := fmt.Sprintf("<!-- Begin of %s:", name), fmt.Sprintf("<!-- End of %s. -->\n", name)
	before, rest, opened := strings.Cut(text, begin)
	comment, rest, _ := strings.Cut(rest, "\n")
	_, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		return "", fmt.Errorf("find the generated part: want lines with %q and %q", begin, strings.TrimSpace(end))
	}
	return before + begin + comment + "\n" + part + end + after, nil
}

// Rewrite replaces a part of the file at path.
func Rewrite(path, name, part string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read document: %w", err)
	}
	text, err := Replace(string(old), name, part)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write document: %w", err)
	}
	return nil
}
