//go:build linux && cgo

package native_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reads counts by inotify(7) how often this process opens the files of a port. inotify
// merges equal events in a row, so reads also watches for closing, which alternates with
// opening.
type reads struct {
	fd   int
	dirs map[int32]string // by watch
}

func newReads(port string) (*reads, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch reads of %s: %w", port, err)
	}
	r := &reads{fd, map[int32]string{}}
	for _, dir := range []string{"pkeys", "counters", "hw_counters"} {
		w, err := unix.InotifyAddWatch(fd, filepath.Join(port, dir), unix.IN_OPEN|unix.IN_CLOSE_NOWRITE)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("watch reads of %s: %w", dir, err)
		}
		if err == nil {
			r.dirs[int32(w)] = dir
		}
	}
	return r, nil
}

func (r *reads) close() { _ = unix.Close(r.fd) }

// count returns how often the P_Keys and link_downed were opened up to now.
func (r *reads) count() (pkeys, linkDowned int) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := unix.Read(r.fd, buffer)
		if err != nil {
			return pkeys, linkDowned // EAGAIN: there is no more
		}
		for at := 0; at < n; {
			e := (*unix.InotifyEvent)(unsafe.Pointer(&buffer[at]))
			at += unix.SizeofInotifyEvent
			name := string(bytes.TrimRight(buffer[at:at+int(e.Len)], "\x00"))
			at += int(e.Len)
			if e.Mask&(unix.IN_OPEN|unix.IN_ISDIR) != unix.IN_OPEN {
				continue
			}
			switch {
			case r.dirs[e.Wd] == "pkeys":
				pkeys++
			case name == "link_downed":
				linkDowned++
			}
		}
	}
}
