package rdma_events

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"rdma_events/internal/fabric"
)

// listInterval is how often it is looked whether the list has changed. A mounted ConfigMap changes by a link's new target, which
// inotify of the file would not see.
const listInterval = 5 * time.Second

// listFile is the file of fabric.peers_file.
type listFile struct {
	path string
	kept *fabric.List // there is no file; nil: there is one
	host string       // of this host in the list
	log  *slog.Logger

	seen    fs.FileInfo // when it was read last
	warned  string
	without bool // the list that was read last does not have the host
}

// list returns the list of the configuration, for the host of a name in it.
func (c *FabricConfig) list(host string, log *slog.Logger) *listFile {
	return &listFile{path: c.PeersFile, kept: c.hosts, host: host, log: log}
}

// read reads the list. The error is one line.
func (l *listFile) read() (*fabric.List, error) {
	if l.kept != nil {
		return l.kept, nil
	}
	f, err := os.Open(l.path)
	if err != nil {
		return nil, l.failed(err)
	}
	defer f.Close()
	seen, err := f.Stat()
	if err != nil {
		return nil, l.failed(err)
	}
	list, err := fabric.ParseList(f)
	l.seen = seen
	if err != nil {
		return nil, l.failed(err)
	}
	if _, ok := list.Host(l.host); !ok && !l.without {
		l.log.Warn(fmt.Sprintf("%s: fabric.peers_file = %q has no host %q: this host neither probes others nor answers them; "+
			"add it, or set fabric.host to the name that it has there", table, l.path, l.host))
		l.without = true
	} else if ok {
		l.without = false
	}
	return list, nil
}

func (l *listFile) failed(err error) error {
	return fmt.Errorf("%s: fabric.peers_file = %q: %w", table, l.path, err)
}

// watch calls set with each list that differs from the one before, until ctx is done. A list that cannot be read is reported
// once, and the one before stays.
func (l *listFile) watch(ctx context.Context, set func(*fabric.List)) {
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
		now, err := os.Stat(l.path)
		if err == nil && l.isSeen(now) {
			continue
		}
		list, err := l.read()
		if err == nil {
			l.warned = ""
			l.log.Info("the list of hosts is another one", "hosts", list.Len(), "groups", list.Groups(), "digest", list.Digest())
			set(list)
		} else if err.Error() != l.warned {
			l.warned = err.Error()
			l.log.Warn(l.warned + "; the list before goes on to be used")
		}
	}
}

func (l *listFile) isSeen(now fs.FileInfo) bool {
	return l.seen != nil && os.SameFile(l.seen, now) && l.seen.ModTime().Equal(now.ModTime()) && l.seen.Size() == now.Size()
}
