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
	// listInterval is the time between two checks whether the list has changed. The plugin polls because a mounted
	// ConfigMap changes by a new target of a symbolic link, which an inotify watch on the file does not see.
	listInterval = 5 * time.Second
	// listSettled is the time between two reads that must have the same content. Programs that write a file in place,
	// such as tee, empty it first, and a pipe or a network may delay them in the middle of a line.
	listSettled = time.Second
	// listReads is the maximum number of reads in a row of a list that keeps changing.
	listReads = 3
)

var (
	errNoHosts      = errors.New("it has no hosts")
	errBeingWritten = errors.New("it is being written: no two reads of it in a row are the same")
)

// listFile reads the list of hosts from fabric.peers_file and reloads it when the file changes.
type listFile struct {
	path  string
	fixed *pinglist.List // list that replaces the file; nil: read the file
	host  string         // name of this host in the list
	log   *slog.Logger

	lastReading listReading       // its info is nil if nothing was read or the file must be read again
	usedSum     [sha256.Size]byte // checksum of the list in use
	lastWarning string
	lacksHost   bool // the last list does not contain this host
}

// listReading is the result of one read of the file.
type listReading struct {
	list *pinglist.List // nil if err is set
	err  error
	info fs.FileInfo       // from before the read; nil if the file could not be opened
	sum  [sha256.Size]byte // checksum of the content, to its end or to the line of err
}

// rejection returns why this list must not replace the list in use, or nil if it may replace it.
func (r listReading) rejection() error {
	if r.err == nil && r.list.Len() == 0 {
		return errNoHosts
	}
	return r.err
}

// hasSameContent reports whether two readings have the same content and both are valid or both are invalid.
func (r listReading) hasSameContent(o listReading) bool {
	return r.sum == o.sum && (r.err == nil) == (o.err == nil)
}

// isSettled reports whether the file has not changed for listSettled. A pipe always counts as settled: it is read to
// its end, once.
func (r listReading) isSettled(now time.Time) bool {
	return r.info != nil && (!r.info.Mode().IsRegular() || now.Sub(filestate.ChangeTime(r.info)) >= listSettled)
}

// newListFile returns the list of the configuration. host is the name of this host in the list.
func (c *FabricConfig) newListFile(host string, log *slog.Logger) *listFile {
	return &listFile{path: c.PeersFile, fixed: c.hosts, host: host, log: log}
}

// read reads the list once, in its current state. The error is one line.
func (l *listFile) read() (*pinglist.List, error) {
	if l.fixed != nil {
		return l.fixed, nil
	}
	return l.acceptFirst(l.readOnce())
}

// open reads the list when the plugin starts. If the file has just been written, open reads it until two reads agree,
// for at most two seconds. If the file then has no hosts or is still being written, open logs that and returns an empty
// list; watch applies the file once it is complete. The error is one line.
func (l *listFile) open() (*pinglist.List, error) {
	if l.fixed != nil {
		return l.fixed, nil
	}
	r := l.readOnce()
	if !r.isSettled(time.Now()) {
		r = l.readUntilSettled(context.Background(), r)
	}
	if err := r.rejection(); errors.Is(err, errNoHosts) || errors.Is(err, errBeingWritten) {
		l.lastReading = r
		l.warnOnce(err, "this host neither probes others nor answers them until the file is complete")
		return pinglist.ParseList(strings.NewReader(""))
	}
	return l.acceptFirst(r)
}

// acceptFirst returns the list of the first reading. There is no previous list to keep, so an error is returned.
func (l *listFile) acceptFirst(r listReading) (*pinglist.List, error) {
	l.lastReading = r
	if r.err != nil {
		return nil, l.wrapError(r.err)
	}
	l.markInUse(r)
	return r.list, nil
}

// markInUse remembers that the list of a reading is in use. It logs a warning if the list does not contain this host.
func (l *listFile) markInUse(r listReading) {
	l.usedSum = r.sum
	if _, ok := r.list.Host(l.host); !ok && !l.lacksHost {
		l.log.Warn(fmt.Sprintf("%s: fabric.peers_file = %q has no host %q: this host neither probes others nor answers them; "+
			"add it, or set fabric.host to the name that it has there", table, l.path, l.host))
		l.lacksHost = true
	} else if ok {
		l.lacksHost = false
	}
}

// readOnce reads and parses the file. It returns an error as part of the reading.
func (l *listFile) readOnce() (r listReading) {
	f, err := os.Open(l.path)
	if err != nil {
		return listReading{err: err}
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

// readUntilSettled reads the list until two consecutive reads, listSettled apart, agree. It returns early if ctx is
// done.
func (l *listFile) readUntilSettled(ctx context.Context, r listReading) listReading {
	for range listReads - 1 {
		select {
		case <-ctx.Done():
			return listReading{err: ctx.Err()}
		case <-time.After(listSettled):
		}
		next := l.readOnce()
		if next.hasSameContent(r) {
			return next
		}
		r = next
	}
	return listReading{err: errBeingWritten}
}

// watch calls set with each list that differs from the one in use, until ctx is done. If a list cannot be read, changes
// while it is read or has no hosts, watch logs one warning and keeps the previous list.
func (l *listFile) watch(ctx context.Context, set func(*pinglist.List)) {
	if l.fixed != nil {
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
		if now, err := os.Stat(l.path); err == nil && l.lastReading.info != nil && filestate.Same(l.lastReading.info, now) {
			continue
		}
		r := l.readUntilSettled(ctx, l.readOnce())
		if ctx.Err() != nil {
			return
		}
		l.applyReading(r, set)
	}
}

// applyReading calls set with the list of a reading if it differs from the list in use.
func (l *listFile) applyReading(r listReading, set func(*pinglist.List)) {
	l.lastReading = r
	if err := r.rejection(); err != nil {
		l.warnOnce(err, "the previous list stays in use")
		return
	}
	l.lastWarning = ""
	if r.sum == l.usedSum {
		return
	}
	l.markInUse(r)
	l.log.Info("peer list reloaded", "hosts", r.list.Len(), "groups", r.list.Groups(), "digest", r.list.Digest())
	set(r.list)
}

// warnOnce logs why the file is not used and what follows from that. It does not repeat the last warning.
func (l *listFile) warnOnce(err error, effect string) {
	if text := l.wrapError(err).Error(); text != l.lastWarning {
		l.lastWarning = text
		l.log.Warn("peer list: "+effect, "error", text)
	}
}

func (l *listFile) wrapError(err error) error {
	return fmt.Errorf("%s: fabric.peers_file = %q: %w", table, l.path, err)
}
