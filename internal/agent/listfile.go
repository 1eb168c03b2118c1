package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/sys/filestate"
)

const (
	// listInterval is how often it is looked whether the list has changed. A mounted ConfigMap changes by a link's new target,
	// which inotify of the file would not see.
	listInterval = 5 * time.Second
	// listSettled is the time between two reads that must agree. Programs that write a file in place, such as tee, first empty
	// it, and a pipe or a network may hold them up in the middle of a line.
	listSettled = time.Second
	// listReads limits how often a list that keeps changing is read in a row.
	listReads = 3
)

var (
	errNoHosts      = errors.New("it has no hosts")
	errBeingWritten = errors.New("it is being written: no two reads of it in a row are the same")
)

// listFile is the file of fabric.peers_file.
type listFile struct {
	path string
	kept *pinglist.List // there is no file; nil: there is one
	host string         // of this host in the list
	log  *slog.Logger

	last    reading           // nil info: nothing was read, or it has to be read again
	used    [sha256.Size]byte // the content of the list in use
	warned  string
	without bool // the list that was read last does not have the host
}

// reading is the result of one read of the file.
type reading struct {
	list *pinglist.List // nil: err
	err  error
	info fs.FileInfo       // before the read; nil: the file could not be opened
	sum  [sha256.Size]byte // of the content, to its end or to the line of err
}

// fault returns why the list of the reading must not replace another one.
func (r reading) fault() error {
	if r.err == nil && r.list.Len() == 0 {
		return errNoHosts
	}
	return r.err
}

// agrees reports whether two readings found the same.
func (r reading) agrees(o reading) bool {
	return r.sum == o.sum && (r.err == nil) == (o.err == nil)
}

// settled reports whether the file has been left alone for listSettled. A pipe is read to its end, once.
func (r reading) settled(now time.Time) bool {
	return r.info != nil && (!r.info.Mode().IsRegular() || now.Sub(filestate.ChangeTime(r.info)) >= listSettled)
}

// list returns the list of the configuration, for the host of a name in it.
func (c *FabricConfig) list(host string, log *slog.Logger) *listFile {
	return &listFile{path: c.PeersFile, kept: c.hosts, host: host, log: log}
}

// read reads the list once, as it is at this moment. The error is one line.
func (l *listFile) read() (*pinglist.List, error) {
	if l.kept != nil {
		return l.kept, nil
	}
	return l.accept(l.readOnce())
}

// open reads the list for the start of the plugin. A file that has just been written is read until two reads agree, for two seconds
// at most. If it then has no hosts, or is still being written, open logs that and returns an empty list, and watch takes the
// file once it is complete. The error is one line.
func (l *listFile) open() (*pinglist.List, error) {
	if l.kept != nil {
		return l.kept, nil
	}
	r := l.readOnce()
	if !r.settled(time.Now()) {
		r = l.settle(context.Background(), r)
	}
	if err := r.fault(); errors.Is(err, errNoHosts) || errors.Is(err, errBeingWritten) {
		l.last = r
		l.warn(err, "this host neither probes others nor answers them until the file is complete")
		return pinglist.ParseList(strings.NewReader(""))
	}
	return l.accept(r)
}

// accept returns the list of a reading at the start, where no other one is in use.
func (l *listFile) accept(r reading) (*pinglist.List, error) {
	l.last = r
	if r.err != nil {
		return nil, l.failed(r.err)
	}
	l.use(r)
	return r.list, nil
}

// use remembers that the list of a reading is in use, and warns if it lacks this host.
func (l *listFile) use(r reading) {
	l.used = r.sum
	if _, ok := r.list.Host(l.host); !ok && !l.without {
		l.log.Warn(fmt.Sprintf("%s: fabric.peers_file = %q has no host %q: this host neither probes others nor answers them; "+
			"add it, or set fabric.host to the name that it has there", table, l.path, l.host))
		l.without = true
	} else if ok {
		l.without = false
	}
}

func (l *listFile) readOnce() (r reading) {
	f, err := os.Open(l.path)
	if err != nil {
		return reading{err: err}
	}
	defer f.Close()
	if r.info, r.err = f.Stat(); r.err != nil {
		return r
	}
	sum := sha256.New()
	r.list, r.err = pinglist.ParseList(io.TeeReader(f, sum))
	sum.Sum(r.sum[:0])
	return r
}

// settle reads the list until two reads in a row, listSettled apart, agree. It returns early once ctx is done.
func (l *listFile) settle(ctx context.Context, r reading) reading {
	for range listReads - 1 {
		select {
		case <-ctx.Done():
			return reading{err: ctx.Err()}
		case <-time.After(listSettled):
		}
		next := l.readOnce()
		if next.agrees(r) {
			return next
		}
		r = next
	}
	return reading{err: errBeingWritten}
}

// watch calls set with each list that differs from the one in use, until ctx is done. A list that cannot be read, changes while
// it is read or has no hosts is reported once, and the previous one stays in use.
func (l *listFile) watch(ctx context.Context, set func(*pinglist.List)) {
	if l.kept != nil {
		return
	}
	tick := time.NewTicker(listInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now, err := os.Stat(l.path); err == nil && l.last.info != nil && filestate.Same(l.last.info, now) {
			continue
		}
		r := l.settle(ctx, l.readOnce())
		if ctx.Err() != nil {
			return
		}
		l.take(r, set)
	}
}

// take calls set with the list of a reading if it differs from the one in use.
func (l *listFile) take(r reading, set func(*pinglist.List)) {
	l.last = r
	if err := r.fault(); err != nil {
		l.warn(err, "the previous list stays in use")
		return
	}
	l.warned = ""
	if r.sum == l.used {
		return
	}
	l.use(r)
	l.log.Info("peer list reloaded", "hosts", r.list.Len(), "groups", r.list.Groups(), "digest", r.list.Digest())
	set(r.list)
}

// warn logs why the file is not used and what follows, unless that was the last warning.
func (l *listFile) warn(err error, effect string) {
	if text := l.failed(err).Error(); text != l.warned {
		l.warned = text
		l.log.Warn(text + "; " + effect)
	}
}

func (l *listFile) failed(err error) error {
	return fmt.Errorf("%s: fabric.peers_file = %q: %w", table, l.path, err)
}
