// Package filestate detects whether a file has changed between two calls of stat(2).
package filestate

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Same reports whether a and b, returned by os.Stat or os.File.Stat, describe the same file with unchanged content, mode and
// owner. On kernels before 6.13 it misses a change that keeps the size and happens within one tick of the kernel's clock (some
// milliseconds).
func Same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() &&
		a.ModTime().Equal(b.ModTime()) && ChangeTime(a).Equal(ChangeTime(b))
}

// ChangeTime returns the time of the last status change of the file (st_ctime in inode(7)). Unlike the modification time,
// programs that copy files cannot set it.
func ChangeTime(info fs.FileInfo) time.Time {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.ModTime()
	}
	return time.Unix(st.Ctim.Unix())
}
