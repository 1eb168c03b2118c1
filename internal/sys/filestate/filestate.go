// Package filestate finds out whether a file has changed between two looks at it.
package filestate

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Same reports whether a and b, which os.Stat or os.File.Stat has returned, show one file without a change between them: of its
// content, or of its mode or owner. A change that leaves the size and comes within the same tick of the kernel's clock, some
// milliseconds, goes unseen on kernels before 6.13.
func Same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() &&
		a.ModTime().Equal(b.ModTime()) && ChangeTime(a).Equal(ChangeTime(b))
}

// ChangeTime returns the time of the file's last change (st_ctime in inode(7)). Programs that copy files set the time of the
// last modification as they like, and cannot set this one.
func ChangeTime(info fs.FileInfo) time.Time {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.ModTime()
	}
	return time.Unix(st.Ctim.Unix())
}
