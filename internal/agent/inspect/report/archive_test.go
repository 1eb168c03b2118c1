package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// moment is the time of the reports in tests.
var moment = time.Date(2026, 11, 23, 16, 35, 4, 123456789, time.UTC)

func TestTheNameHasHostAndTime(t *testing.T) {
	require.Equal(t, "report-node17.rack-3-20261123T163504Z", Name("node17.rack-3", moment))
	require.Equal(t, "report-.._etc_passwd-20261123T163504Z", Name("../etc/passwd", moment))
	require.Equal(t, "report-unknown-20261123T163504Z", Name("", moment))
}

func sampleResults() []Result {
	return []Result{
		{Description: Description{"timeline.txt", "t"}, File: File{Data: Text("09:12\n")}},
		{Description: Description{"gone", "g"}, Missing: errors.New("no luck")},
		{Description: Description{"devices/mlx5_0.json", "d"}, File: File{Data: Text("{}\n")}},
	}
}

func TestAnArchiveHasTheFilesInTheirOrderAndEqualArgumentsGiveEqualBytes(t *testing.T) {
	var first, second bytes.Buffer
	require.NoError(t, Archive(&first, "report-x", moment, "list\n", sampleResults()))
	require.NoError(t, Archive(&second, "report-x", moment, "list\n", sampleResults()))
	require.Equal(t, first.Bytes(), second.Bytes())

	z, err := gzip.NewReader(&first)
	require.NoError(t, err)
	in := tar.NewReader(z)
	for _, want := range []struct{ name, text string }{
		{"report-x/MANIFEST.txt", "list\n"}, {"report-x/timeline.txt", "09:12\n"}, {"report-x/devices/mlx5_0.json", "{}\n"},
	} {
		h, err := in.Next()
		require.NoError(t, err)
		require.Equal(t, want.name, h.Name)
		require.Equal(t, int64(0o600), h.Mode)
		require.Equal(t, moment.Truncate(time.Second), h.ModTime.UTC())
		text, err := io.ReadAll(in)
		require.NoError(t, err)
		require.Equal(t, want.text, string(text))
	}
	_, err = in.Next()
	require.ErrorIs(t, err, io.EOF)
}

// wrongLength contains less data than Len returns.
type wrongLength struct{ Text }

func (wrongLength) Len() int64 { return 100 }

func TestAFileOfAnotherLengthIsAnErrorAndNoBadArchive(t *testing.T) {
	all := []Result{{Description: Description{"a", ""}, File: File{Data: wrongLength{Text("x")}}}}
	require.ErrorContains(t, Archive(io.Discard, "d", moment, "", all), "missed writing 99 bytes")
}

func TestAnOutputHasItsNameOnlyOnceItIsComplete(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.tar.gz")
	o, err := Create(path)
	require.NoError(t, err)
	_, err = o.Write([]byte("half"))
	require.NoError(t, err)
	require.NoFileExists(t, path)
	o.Discard()
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Empty(t, left)

	require.NoError(t, os.WriteFile(path, []byte("older"), 0o644))
	o, err = Create(path)
	require.NoError(t, err)
	_, err = o.Write([]byte("whole"))
	require.NoError(t, err)
	size, err := o.Keep()
	require.NoError(t, err)
	require.Equal(t, int64(5), size)
	o.Discard()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "whole", string(text))
}

func TestAPlaceThatCannotBeWrittenIsAnErrorAtOnce(t *testing.T) {
	dir := t.TempDir()
	_, err := Create(dir)
	require.EqualError(t, err, "write "+dir+": it is a directory; name a file in it")
	_, err = Create(filepath.Join(dir, "none", "out.tar.gz"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "write "+dir)
}

func TestADeviceOrLinkIsNotReplaced(t *testing.T) {
	link := filepath.Join(t.TempDir(), "out.tar.gz")
	require.NoError(t, os.Symlink("elsewhere", link))
	for _, path := range []string{link, "/dev/null"} {
		_, err := Create(path)
		require.EqualError(t, err, "write "+path+": it is no regular file; name another one")
	}
}

func TestNewOutputReplacesNoFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.tar.gz")
	require.NoError(t, os.WriteFile(path, []byte("of another job"), 0o600))
	o, err := Create(path)
	require.NoError(t, err)
	_, err = o.Write([]byte("own"))
	require.NoError(t, err)
	_, err = o.KeepNew()
	require.ErrorIs(t, err, fs.ErrExist)
	o.Rename(filepath.Join(dir, "out-2.tar.gz"))
	size, err := o.KeepNew()
	require.NoError(t, err)
	require.EqualValues(t, 3, size)
	o.Discard()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "of another job", string(old))
}
