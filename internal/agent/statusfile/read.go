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

// ErrNone is the error of Read if no running plugin has written a status that is fresh enough.
var ErrNone = errors.New("no running plugin reports the status of this host")

// maxSize is the maximum size of a file. A device takes about 2 kB.
const maxSize = 16 << 20

// HostStatus is the combined status of all plugins that run on a host.
type HostStatus struct {
	*health.Status
	// Plugins lists the plugins, and how long ago each wrote its status.
	Plugins []Plugin
}

// Plugin is a running plugin.
type Plugin struct {
	PID int
	Age time.Duration
}

// Read returns the combined status that running plugins wrote to a directory. If dir is empty, Read tries the directory
// of services and then that of this user. It ignores a status that is stale: its process has ended or has missed three
// intervals. If there is another one, a process that has missed them and still exists is pending: what it would report is
// unknown. The error is one line, and wraps ErrNone if no usable status was found.
func Read(dir string) (*HostStatus, error) {
	if dir != "" {
		return readDir(dir)
	}
	dirs := Dirs()
	found, err := readDir(dirs[0])
	for _, dir := range dirs[1:] {
		if err == nil {
			break
		}
		if other, failed := readDir(dir); failed == nil {
			return other, nil
		}
	}
	return found, err
}

func readDir(dir string) (*HostStatus, error) {
	here, err := pidNamespace()
	if err != nil {
		return nil, err
	}
	all, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read status: %w", err)
	}
	found := new(HostStatus)
	var fresh []*health.Status
	var silent []health.Pending
	var why []string
	for _, e := range all {
		if filepath.Ext(e.Name()) != suffix {
			continue
		}
		r, err := readFile(filepath.Join(dir, e.Name()))
		switch {
		case err != nil:
			why = append(why, err.Error())
		case r.Process.hasEnded(here):
			why = append(why, fmt.Sprintf("that with PID %d has ended", r.Process.PID))
		case ageOf(&r.Process) < 0: // written before the last boot
			why = append(why, fmt.Sprintf("that with PID %d reported before this host started", r.Process.PID))
		case ageOf(&r.Process) > r.Process.maxAge():
			text := fmt.Sprintf("with PID %d reported %s ago", r.Process.PID, ageOf(&r.Process).Round(time.Second))
			why = append(why, "that "+text)
			if r.Process.Namespace == here { // of another PID namespace it is unknown whether it exists
				silent = append(silent, health.Pending{Text: "the plugin " + text})
			}
		default:
			fresh = append(fresh, &r.Status)
			found.Plugins = append(found.Plugins, Plugin{r.Process.PID, ageOf(&r.Process)})
		}
	}
	if len(fresh) == 0 {
		return nil, fmt.Errorf("%w (%s)", ErrNone, strings.Join(append(why, "in "+dir), "; "))
	}
	found.Status = health.Merge(fresh)
	found.Pending = append(found.Pending, silent...)
	return found, nil
}

func readFile(path string) (*fileContent, error) {
	text, err := smallfile.Read(path, maxSize)
	if err != nil {
		return nil, fmt.Errorf("read status: %w", err)
	}
	r := new(fileContent)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read status of %s: %w", path, err)
	}
	if r.Schema != health.Schema {
		return nil, fmt.Errorf("read status of %s: its schema is %d, and this program reads %d", path, r.Schema, health.Schema)
	}
	return r, nil
}
