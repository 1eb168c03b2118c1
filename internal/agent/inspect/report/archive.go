package report

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ManifestName is the name of the file that lists the others. It is the first file of an archive.
const ManifestName = "MANIFEST.txt"

// Name returns the name of a report without its suffix. The directory in the archive has this name.
func Name(host string, at time.Time) string {
	safe := func(r rune) rune {
		if r == '-' || r == '.' || r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return r
		}
		return '_'
	}
	return "report-" + strings.Map(safe, cmp.Or(host, "unknown")) + "-" + at.UTC().Format("20060102T150405Z")
}

// Suffix is the suffix that Name gets for the file name of the archive.
const Suffix = ".tar.gz"

// Archive writes a gzipped tar archive of the files that are not missing, in one directory, with the manifest first.
// Equal arguments give equal bytes.
func Archive(w io.Writer, dir string, at time.Time, manifest string, made []Result) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	add := func(name string, data Data) error {
		err := t.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(dir, name), Mode: 0o600, Size: data.Len(), ModTime: at.UTC().Truncate(time.Second),
		})
		if err == nil {
			_, err = data.WriteTo(t)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		return nil
	}
	if err := add(ManifestName, Text(manifest)); err != nil {
		return err
	}
	for i := range made {
		if made[i].Missing != nil {
			continue
		}
		if err := add(made[i].Name, made[i].Data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// Output is a file that gets its final name when it is complete. Until then it has a temporary name in the same
// directory.
type Output struct {
	path string
	f    *os.File
	kept bool
}

// Create creates an Output that only its owner may read. The caller must call Discard.
func Create(path string) (*Output, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("write %s: it is a directory; name a file in it", path)
	}
	// Keep would replace /dev/null or the link /dev/stdout by the archive.
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("write %s: it is no regular file; name another one", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".rdma-events-report-*") // has mode 0600
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return &Output{path: path, f: f}, nil
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) { return o.f.Write(p) }

// Keep gives the file its final name, and replaces an existing file. It returns the size.
func (o *Output) Keep() (size int64, err error) {
	info, err := o.f.Stat()
	if err == nil {
		err = errors.Join(o.f.Sync(), o.f.Close())
	}
	if err == nil {
		err = os.Rename(o.f.Name(), o.path)
	}
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", o.path, err)
	}
	o.kept = true
	return info.Size(), nil
}

// KeepNew gives the file its final name, but never replaces a file: the error wraps fs.ErrExist if the name exists.
// Discard removes the temporary name.
func (o *Output) KeepNew() (size int64, err error) {
	info, err := o.f.Stat()
	if err == nil {
		err = o.f.Sync()
	}
	if err == nil {
		err = os.Link(o.f.Name(), o.path) // a rename would replace an existing file
	}
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", o.path, err)
	}
	return info.Size(), nil
}

// Rename changes the final name to another one in the same directory.
func (o *Output) Rename(path string) { o.path = path }

// Unlink removes the temporary file while another goroutine may still write to it.
func (o *Output) Unlink() { _ = os.Remove(o.f.Name()) } // the file may have its final name already

// Discard removes the file unless Keep has succeeded. It may be called after Keep.
func (o *Output) Discard() {
	if !o.kept {
		// The first error is the one to report.
		_ = o.f.Close()
		_ = os.Remove(o.f.Name())
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
