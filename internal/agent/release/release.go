package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/smallfile"
)

// Longest is the longest time for which a device can be released.
const Longest = 24 * time.Hour

const (
	schema = 1
	// name is that of the file that releases all devices. The file of one device has its name after the separator, which no
	// device name can contain.
	name      = "released"
	separator = ":"
	// unfinished is in the names of files that are being written. Package statusfile removes what a killed process left of them.
	unfinished = ".new"
	// maxSize and maxFiles limit what is read of a directory.
	maxSize  = 4 << 10
	maxFiles = 4096
)

// Entry releases one device, or all.
type Entry struct {
	Device string // "": all devices, also those that appear later
	// NodeGUID and PCI recognize the device under another name; "" if unknown. See verbs.Found.
	NodeGUID, PCI string
	// Until is the end of the release, in ns of CLOCK_BOOTTIME; 0: the device is not released although all devices are.
	Until int64
}

// content is what the file of an Entry has.
type content struct {
	Schema   int    `json:"schema"`
	Boot     string `json:"boot_id"`
	Device   string `json:"device,omitempty"`
	NodeGUID string `json:"node_guid,omitempty"`
	PCI      string `json:"pci_address,omitempty"`
	Until    int64  `json:"until_ns"`
}

// is reports whether the entry is about a device that was found.
func (e *Entry) is(f verbs.Found) bool {
	if e.Device == f.Name {
		return true
	}
	known := strings.Trim(e.NodeGUID, "0:") != ""
	return known && e.NodeGUID == f.NodeGUID && e.PCI == f.PCI
}

// Set has the releases of a host at the moment at which they were read. The zero Set releases nothing.
type Set struct {
	dirs []dirSet
}

// dirSet has the releases of one directory.
type dirSet struct {
	all     int64 // the end, 0: not all devices are released
	devices []Entry
}

// Until returns whether a device is released at now, and until when, both in ns of CLOCK_BOOTTIME. Where a release of the
// device and one of all devices are in effect, that of the device counts. If several programs' directories have
// releases, the longest one counts.
func (s Set) Until(f verbs.Found, now int64) (until int64, ok bool) {
	for i := range s.dirs {
		until = max(until, s.dirs[i].until(f))
	}
	return until, until > now
}

// All returns whether all devices are released at now, and until when, but for those that were resumed one by one.
func (s Set) All(now int64) (until int64, ok bool) {
	for i := range s.dirs {
		until = max(until, s.dirs[i].all)
	}
	return until, until > now
}

// Active reports whether any device is released at now.
func (s Set) Active(now int64) bool {
	if _, all := s.All(now); all {
		return true
	}
	for i := range s.dirs {
		for j := range s.dirs[i].devices {
			if s.dirs[i].devices[j].Until > now {
				return true
			}
		}
	}
	return false
}

func (d *dirSet) until(f verbs.Found) int64 {
	until, found := int64(0), false
	for i := range d.devices {
		e := &d.devices[i]
		switch {
		case e.Device == f.Name:
			return e.Until
		case e.is(f):
			until, found = max(until, e.Until), true
		}
	}
	if found {
		return until
	}
	return d.all
}

// Boot returns the identifier of this boot, "" if it is unknown.
func Boot() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id") // random(4)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Read reads the releases in directories. now is CLOCK_BOOTTIME in ns, and boot is that of Boot. A directory that is missing
// releases nothing. The error names files that are not valid, on one line; the others count.
func Read(dirs []string, boot string, now int64) (Set, error) {
	var s Set
	var failed error
	for _, dir := range dirs {
		d, err := readDir(dir, boot, now)
		s.dirs = append(s.dirs, d)
		failed = joined(failed, err)
	}
	return s, failed
}

// joined is errors.Join on one line.
func joined(a, b error) error {
	if a == nil || b == nil {
		return errors.Join(a, b)
	}
	return fmt.Errorf("%w; %w", a, b)
}

func readDir(dir, boot string, now int64) (dirSet, error) {
	var d dirSet
	paths, err := files(dir)
	if err != nil || len(paths) == 0 {
		return d, err
	}
	var failed error
	for _, path := range paths {
		e, ok, err := readFile(path, boot)
		switch {
		case err != nil:
			failed = joined(failed, err)
		case !ok:
		case e.Until > now+int64(Longest):
			failed = joined(failed, fmt.Errorf("read %s: it releases for more than %s", path, Longest))
		case e.Device != "":
			d.devices = append(d.devices, e)
		default:
			d.all = e.Until
		}
	}
	return d, failed
}

// files returns the paths of the releases in a directory. It is an error if others than root and the directory's owner could
// have put them there.
func files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read releases: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if isRelease(e.Name()) && len(paths) < maxFiles {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read releases: %w", err)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("read releases: others may write to %s (mode %04o)", dir, info.Mode().Perm())
	}
	return paths, nil
}

func isRelease(file string) bool {
	return (file == name || strings.HasPrefix(file, name+separator)) && !strings.Contains(file, unfinished)
}

// readFile reads a release. ok is false for one of another boot, and where the file was removed meanwhile.
func readFile(path, boot string) (e Entry, ok bool, err error) {
	text, err := smallfile.Read(path, maxSize)
	if errors.Is(err, os.ErrNotExist) {
		return e, false, nil
	}
	if err != nil {
		return e, false, fmt.Errorf("read release: %w", err)
	}
	var c content
	if err := json.Unmarshal(text, &c); err != nil {
		return e, false, fmt.Errorf("read release %s: %w", path, err)
	}
	switch {
	case c.Schema != schema:
		return e, false, fmt.Errorf("read release %s: its schema is %d, and this program reads %d", path, c.Schema, schema)
	case fileOf(c.Device) != filepath.Base(path):
		return e, false, fmt.Errorf("read release %s: it is about the device %q", path, c.Device)
	}
	return Entry{Device: c.Device, NodeGUID: c.NodeGUID, PCI: c.PCI, Until: c.Until}, c.Boot == boot, nil
}

func fileOf(device string) string {
	if device == "" {
		return name
	}
	return name + separator + device
}
