package inspect

import (
	"io/fs"
	"path"
	"strings"
)

// Files reads small files of a host, below the root of its file system or below /sys.
type Files struct{ fs.FS }

// Text returns a file's text without surrounding white space, "" if the file cannot be read.
func (f Files) Text(elem ...string) string {
	text, err := fs.ReadFile(f.FS, path.Join(elem...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Exists reports whether there is a file or a symbolic link of that name.
func (f Files) Exists(elem ...string) bool {
	_, err := fs.Lstat(f.FS, path.Join(elem...))
	return err == nil
}

// List returns the names in a directory, none if it cannot be read.
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

// Relative returns an absolute path in the form that an fs.FS of the root needs.
func Relative(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }
