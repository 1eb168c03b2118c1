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
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/sys/smallfile"
)

// MaxDuration is the maximum duration of a release.
const MaxDuration = 24 * time.Hour

const (
	schema = 1
	// fileName is the name of the file that releases all devices. The file for one device appends the separator, which
	// no device name contains, and the name of the device.
	fileName  = "released"
	separator = ":"
	// tempMarker is part of the names of files that are being written. Package statusfile removes those that a killed
	// process has left.
	tempMarker = ".new"
	// maxSize is the maximum size of a file, and maxFiles the maximum number of files of a directory that are read.
	maxSize  = 4 << 10
	maxFiles = 4096
)

// Entry is a release of one device or of all devices.
type Entry struct {
	Device string // "": all devices, also those that appear later
	// NodeGUID and PCI identify the device if it has another name now. They are "" if unknown. See verbs.Found.
	NodeGUID, PCI string
	// Until is the end of the release, in ns of CLOCK_BOOTTIME. 0 exempts the device from a release of all devices.
	Until int64
}

// fileContent is the JSON content of the file of an Entry.
type fileContent struct {
	Schema   int    `json:"schema"`
	Boot     string `json:"boot_id"`
	Device   string `json:"device,omitempty"`
	NodeGUID string `json:"node_guid,omitempty"`
	PCI      string `json:"pci_address,omitempty"`
	Until    int64  `json:"until_ns"`
}

// matches reports whether the entry is about the device f, by its name or by its GUID and PCI address.
func (e *Entry) matches(f verbs.Found) bool {
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

// Until returns whether a device is released at now, and until when, both in ns of CLOCK_BOOTTIME. A release of the
// device takes precedence over a release of all devices. If several directories contain releases, the longest one
// counts.
func (s Set) Until(f verbs.Found, now int64) (until int64, ok bool) {
	for i := range s.dirs {
		until = max(until, s.dirs[i].until(f))
	}
	return until, until > now
}

// All returns whether all devices are released at now, and until when. Single devices may have been resumed
// nevertheless.
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
		case e.matches(f):
			until, found = max(until, e.Until), true
		}
	}
	if found {
		return until
	}
	return d.all
}

// BootID returns clock.BootID, or "" if it is unknown.
func BootID() string {
	id, _ := clock.BootID() // it is "" with an error
	return id
}

// Read reads the releases in directories. now is the current CLOCK_BOOTTIME in ns, and boot is the result of BootID. A
// missing directory contains no releases. The error names invalid files, on one line; the valid ones count
// nevertheless.
func Read(dirs []string, boot string, now int64) (Set, error) {
	var s Set
	var failed error
	for _, dir := range dirs {
		d, err := readDir(dir, boot, now)
		s.dirs = append(s.dirs, d)
		failed = joinErrors(failed, err)
	}
	return s, failed
}

// joinErrors is like errors.Join, but its text is one line.
func joinErrors(a, b error) error {
	if a == nil || b == nil {
		return errors.Join(a, b)
	}
	return fmt.Errorf("%w; %w", a, b)
}

// readDir reads the releases in one directory. It returns the valid ones together with an error about the invalid ones.
func readDir(dir, boot string, now int64) (dirSet, error) {
	var d dirSet
	paths, err := listReleases(dir)
	if err != nil || len(paths) == 0 {
		return d, err
	}
	var failed error
	for _, path := range paths {
		e, ok, err := readFile(path, boot)
		switch {
		case err != nil:
			failed = joinErrors(failed, err)
		case !ok:
		case e.Until > now+int64(MaxDuration):
			failed = joinErrors(failed, fmt.Errorf("read %s: it releases for more than %s", path, MaxDuration))
		case e.Device != "":
			d.devices = append(d.devices, e)
		default:
			d.all = e.Until
		}
	}
	return d, failed
}

// listReleases returns the paths of the releases in a directory. It returns an error if the directory contains releases
// and users other than root and its owner can write to it.
func listReleases(dir string) ([]string, error) {
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
	return (file == fileName || strings.HasPrefix(file, fileName+separator)) && !strings.Contains(file, tempMarker)
}

// readFile reads a release. ok is false if it is from another boot or has just been removed.
func readFile(path, boot string) (e Entry, ok bool, err error) {
	text, err := smallfile.Read(path, maxSize)
	if errors.Is(err, os.ErrNotExist) {
		return e, false, nil
	}
	if err != nil {
		return e, false, fmt.Errorf("read release: %w", err)
	}
	var c fileContent
	if err := json.Unmarshal(text, &c); err != nil {
		return e, false, fmt.Errorf("read release %s: %w", path, err)
	}
	switch {
	case c.Schema != schema:
		return e, false, fmt.Errorf("read release %s: its schema is %d, and this program reads %d", path, c.Schema, schema)
	case fileNameFor(c.Device) != filepath.Base(path):
		return e, false, fmt.Errorf("read release %s: it is about the device %q", path, c.Device)
	}
	return Entry{Device: c.Device, NodeGUID: c.NodeGUID, PCI: c.PCI, Until: c.Until}, c.Boot == boot, nil
}

// fileNameFor returns the name of the file of a device, or of all devices for "".
func fileNameFor(device string) string {
	if device == "" {
		return fileName
	}
	return fileName + separator + device
}
