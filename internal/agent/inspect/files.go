package inspect

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Files reads small files of a host, below the root of its file system or below /sys.
type Files struct{ fs.FS }

// ReadText returns the text of a file without surrounding white space, or "" if the file cannot be read.
func (f Files) ReadText(elem ...string) string {
	text, err := fs.ReadFile(f.FS, path.Join(elem...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Exists reports whether a file or symbolic link of that name exists.
func (f Files) Exists(elem ...string) bool {
	_, err := fs.Lstat(f.FS, path.Join(elem...))
	return err == nil
}

// List returns the names in a directory. It returns none if the directory cannot be read.
func (f Files) List(elem ...string) []string {
	entries, err := fs.ReadDir(f.FS, path.Join(elem...))
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// Distribution returns the values of os-release(5) that identify the distribution. The keys are in lower case.
func (f Files) Distribution() map[string]string {
	all := map[string]string{}
	text := f.ReadText("etc/os-release")
	if text == "" {
		text = f.ReadText("usr/lib/os-release")
	}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ID", "ID_LIKE", "VERSION_ID", "PRETTY_NAME", "BUILD_ID":
		default:
			continue
		}
		if unquoted, err := strconv.Unquote(value); err == nil {
			value = unquoted
		}
		if ok {
			all[strings.ToLower(key)] = strings.Trim(value, "'")
		}
	}
	return all
}

// Relative returns an absolute path in the form that an fs.FS of the root file system expects.
func Relative(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }
