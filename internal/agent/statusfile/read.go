package statusfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"rdma_events/internal/agent/health"
	"rdma_events/internal/sys/smallfile"
)

// ErrNone is wrapped by the error of Read when no running plugin has written a status that is not stale.
var ErrNone = errors.New("no running plugin reports the status of this host")

// maxSize limits what is read of a file: some 2 kB are a device.
const maxSize = 16 << 20

// Found is the status of all plugins that run on a host.
type Found struct {
	*health.Status
	// Plugins has the plugins, by their PIDs, and how long ago they wrote their status.
	Plugins []Plugin
}

// Plugin is a running plugin.
type Plugin struct {
	PID int
	Age time.Duration
}

// Read returns the status that the running plugins wrote to a directory; "" is the one of a service, else the one of
// this user. A status is stale, and is not used, if its process has ended or missed three of its intervals. The error
// is one line, and wraps ErrNone if there is none.
func Read(dir string) (*Found, error) {
	if dir != "" {
		return read(dir)
	}
	dirs := Dirs()
	found, err := read(dirs[0])
	for _, dir := range dirs[1:] {
		if err == nil {
			break
		}
		if other, failed := read(dir); failed == nil {
			return other, nil
		}
	}
	return found, err
}

func read(dir string) (*Found, error) {
	here, err := namespace()
	if err != nil {
		return nil, err
	}
	all, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read status: %w", err)
	}
	found := new(Found)
	var fresh []*health.Status
	var why []string
	for _, e := range all {
		if filepath.Ext(e.Name()) != suffix {
			continue
		}
		r, err := readFile(filepath.Join(dir, e.Name()))
		switch {
		case err != nil:
			why = append(why, err.Error())
		case r.Process.gone(here):
			why = append(why, fmt.Sprintf("that with PID %d has ended", r.Process.PID))
		case age(&r.Process) < 0: // of before a boot
			why = append(why, fmt.Sprintf("that with PID %d reported before this host started", r.Process.PID))
		case age(&r.Process) > r.Process.limit():
			why = append(why, fmt.Sprintf("that with PID %d reported %s ago", r.Process.PID, age(&r.Process).Round(time.Second)))
		default:
			fresh = append(fresh, &r.Status)
			found.Plugins = append(found.Plugins, Plugin{r.Process.PID, age(&r.Process)})
		}
	}
	if len(fresh) == 0 {
		return nil, fmt.Errorf("%w (%s)", ErrNone, strings.Join(append(why, "in "+dir), "; "))
	}
	found.Status = health.Merge(fresh)
	return found, nil
}

func readFile(path string) (*report, error) {
	text, err := smallfile.Read(path, maxSize)
	if err != nil {
		return nil, fmt.Errorf("read status: %w", err)
	}
	r := new(report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read status of %s: %w", path, err)
	}
	if r.Schema != health.Schema {
		return nil, fmt.Errorf("read status of %s: its schema is %d, and this program reads %d", path, r.Schema, health.Schema)
	}
	return r, nil
}
