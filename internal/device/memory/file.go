package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/filestate"
	"rdma_events/internal/sys/smallfile"
)

const (
	schema = 1
	// Name is the name of the file in the state directory.
	Name = "memory.json"
	// unfinished is the part of a file's name that marks a file still being written.
	unfinished = ".new"
	// maxSize is the largest file that is read. A device takes about 300 bytes.
	maxSize = 1 << 20
)

// The errors about the contents of the file.
var (
	// ErrOtherMachine is wrapped by the error for a file that another machine wrote, as in a copied disk image.
	ErrOtherMachine = errors.New("it is of another machine")
	errDamaged      = errors.New("it is damaged")
)

// content is the contents of the file.
type content struct {
	Schema  int       `json:"schema"`
	Machine string    `json:"machine_id"` // machine-id(5); "" if it was unknown
	Devices []*Device `json:"devices"`
}

// file is the file of a Memory, and its state after the last Sync.
type file struct {
	dir, machine string
	synced       map[string]*Device // the file's devices
	info         fs.FileInfo        // nil: there was no file
	hasInfo      bool               // info was read
}

// Machine returns the ID of this machine (machine-id(5)); "" if it has none, as in many containers.
func Machine() string {
	text, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Open returns the Memory of a machine in a state directory. If it returns an error, the Memory is empty but usable: the file is
// of another machine, is damaged or cannot be read. The error fits on one line. A missing file is no error.
//
// A host without a machine ID uses only a file that was also written without a machine ID.
func Open(dir, machine string, now func() time.Time) (*Memory, error) {
	m := New(now)
	m.file = &file{dir: dir, machine: machine, synced: map[string]*Device{}}
	_, err := m.Sync()
	return m, err
}

// Forgotten is a device or port that another process has removed from the file.
type Forgotten struct {
	Device string
	Port   int // 0: the device with its ports
}

// Sync synchronizes the Memory with its file. It writes the file only if this process has learned or forgotten something. It adopts
// the changes of other processes, and returns what they have forgotten. It blocks for the file system, and a few milliseconds for
// each other process that is in Sync. It replaces an invalid file as soon as there is something to write.
func (m *Memory) Sync() ([]Forgotten, error) {
	if m.file == nil {
		return nil, nil
	}
	f := m.file
	differs := f.hasChanged()
	if !differs && !m.isChanged() {
		return nil, nil
	}
	unlock, err := f.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	there, invalid := f.read()
	if invalid != nil {
		m.forgetFile()
	}
	forgotten, next := m.merge(there)
	if next != nil {
		if err := f.writeDevices(next); err != nil {
			m.writeAgain(there, next)
			return forgotten, err
		}
	}
	f.updateInfo()
	if !differs {
		invalid = nil // the last Sync has returned it
	}
	return forgotten, invalid
}

// forgetFile makes the next merge replace an invalid file by all devices of this process.
func (m *Memory) forgetFile() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.file.synced = map[string]*Device{}
	for name := range m.devices {
		m.changed[name] = true
	}
}

func (m *Memory) isChanged() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.changed) > 0
}

// merge adopts the changes that other processes have made to the file, whose devices are there. It returns what these processes
// have forgotten, and the devices to write; nil if there is nothing to write.
func (m *Memory) merge(there map[string]*Device) (forgotten []Forgotten, next map[string]*Device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, was := range m.file.synced {
		forgotten = append(forgotten, m.removeForgotten(was, there[name])...)
	}
	next = maps.Clone(there)
	for name := range m.changed {
		if own := m.devices[name]; own != nil {
			next[name] = own.withPorts(there[name], m.file.synced[name])
		} else {
			delete(next, name)
		}
	}
	if len(m.changed) == 0 || maps.EqualFunc(next, there, (*Device).equal) {
		m.devices = maps.Clone(there)
		m.file.synced, m.changed = there, map[string]bool{}
		return forgotten, nil
	}
	m.devices = maps.Clone(next)
	m.dropOldest()
	next = maps.Clone(m.devices)
	m.file.synced, m.changed = next, map[string]bool{}
	return forgotten, next
}

// withPorts returns the device with the ports that other processes have added since the last Sync: ports of now that was lacks.
func (d *Device) withPorts(now, was *Device) *Device {
	if now == nil {
		return d
	}
	for _, p := range now.Ports {
		at, own := d.findPort(p.Port)
		known := false
		if was != nil {
			_, known = was.findPort(p.Port)
		}
		if !own && !known && len(d.Ports) < maxPorts {
			d = d.clone()
			d.Ports = slices.Insert(d.Ports, at, p)
		}
	}
	return d
}

// removeForgotten compares the file's entry for a device at the last Sync with the current one, and removes from the Memory what the
// file has lost. It returns what it removed. now is nil if the file no longer has the device. The caller holds m.mu.
func (m *Memory) removeForgotten(was, now *Device) []Forgotten {
	own := m.devices[was.Name]
	if now == nil {
		delete(m.changed, was.Name)
		delete(m.devices, was.Name)
		if own == nil {
			return nil // this process has forgotten the device, too
		}
		return []Forgotten{{Device: was.Name}}
	}
	var all []Forgotten
	for _, p := range was.Ports {
		if _, ok := now.findPort(p.Port); ok || own == nil {
			continue
		}
		if at, ok := own.findPort(p.Port); ok {
			own = own.clone()
			own.Ports = slices.Delete(own.Ports, at, at+1)
			m.devices[was.Name] = own
			all = append(all, Forgotten{was.Name, p.Port})
		}
	}
	return all
}

// writeAgain makes the next Sync repeat a write that failed. there are the devices in the file, and next are those that should be in it.
func (m *Memory) writeAgain(there, next map[string]*Device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.file.synced = map[string]*Device{}
	for _, devices := range []map[string]*Device{there, next} {
		for name := range devices {
			m.changed[name] = true
		}
	}
}

// RequestSync makes Run call Sync soon. It does not block.
func (m *Memory) RequestSync() {
	m.wake.Send()
}

// Run calls Sync after each change and each RequestSync, until ctx is done, and then once more. It calls forgotten for each device or
// port that another process has removed. It logs the first of several errors in a row.
func (m *Memory) Run(ctx context.Context, forgotten func(Forgotten), log *slog.Logger) {
	failing := false
	sync := func() {
		all, err := m.Sync()
		for _, f := range all {
			forgotten(f)
		}
		if err != nil && !failing {
			log.Warn("memory: sync failed", "err", err)
		}
		failing = err != nil
	}
	for {
		select {
		case <-ctx.Done():
			sync()
			return
		case <-m.wake:
			sync()
		}
	}
}

// Forget removes a port, or with port 0 a device and its ports, from the memory in a state directory, and reports whether it was
// remembered. It needs no running plugin; a running plugin notices the change at its next interval. The error wraps os.ErrPermission
// if the user may not write to the directory, and os.ErrNotExist if there is no memory.
func Forget(dir, device string, port int) (bool, error) {
	c, err := readContent(filepath.Join(dir, Name))
	if err != nil {
		return false, fmt.Errorf("read memory: %w", err)
	}
	m, err := Open(dir, c.Machine, time.Now)
	if err != nil || !m.Forget(device, port) {
		return false, err
	}
	_, err = m.Sync()
	return true, err
}

func (f *file) path() string { return filepath.Join(f.dir, Name) }

// hasChanged reports whether the file on disk has changed since the last Sync.
func (f *file) hasChanged() bool {
	info, err := os.Lstat(f.path())
	if err != nil {
		info = nil
	}
	if !f.hasInfo || (info == nil) != (f.info == nil) {
		return true
	}
	return info != nil && !filestate.Same(info, f.info)
}

// updateInfo records the current state of the file for hasChanged. The caller holds the lock.
func (f *file) updateInfo() {
	f.hasInfo, f.info = true, nil
	if info, err := os.Lstat(f.path()); err == nil {
		f.info = info
	}
}

// lockTime is the longest time for which a Sync waits for other processes that are in Sync.
const lockTime = 2 * time.Second

// lock locks the directory. A lock file would belong to the process that created it first, perhaps root.
func (f *file) lock() (unlock func(), err error) {
	dir, err := os.Open(f.dir)
	if err != nil {
		return nil, fmt.Errorf("lock directory: %w", err)
	}
	for end := time.Now().Add(lockTime); ; time.Sleep(10 * time.Millisecond) {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.dir, err), dir.Close())
	}
	return func() { _ = dir.Close() }, nil // closing releases the lock
}

// read returns the devices in the file. With an error it returns none.
func (f *file) read() (map[string]*Device, error) {
	all := map[string]*Device{}
	c, err := readContent(f.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return all, nil
	case err != nil:
	case c.Machine != f.machine:
		err = ErrOtherMachine
	}
	if err != nil {
		return all, fmt.Errorf("%s is ignored, and its devices are not remembered: %w", f.path(), err)
	}
	for _, d := range c.Devices {
		if len(all) < MaxDevices {
			all[d.Name] = d
		}
	}
	return all, nil
}

func readContent(path string) (*content, error) {
	text, err := smallfile.Read(path, maxSize)
	if errors.Is(err, smallfile.ErrNotRegular) {
		return nil, fmt.Errorf("%w: it %w", errDamaged, smallfile.ErrNotRegular)
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // read wraps it
	}
	c := new(content)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if c.Schema != schema {
		return nil, fmt.Errorf("its schema is %d, and this program reads %d", c.Schema, schema)
	}
	return c, c.check()
}

// check verifies what the methods of Device rely on: names, the number of ports, and their order.
func (c *content) check() error {
	for _, d := range c.Devices {
		if d == nil || d.Name == "" || len(d.Ports) > maxPorts || !slices.IsSortedFunc(d.Ports, func(a, b Port) int { return a.Port - b.Port }) {
			return fmt.Errorf("%w: a device in it is not valid", errDamaged)
		}
	}
	return nil
}

// writeDevices replaces the file atomically. The new file is complete on the disk before it gets the name.
func (f *file) writeDevices(devices map[string]*Device) error {
	c := content{Schema: schema, Machine: f.machine, Devices: []*Device{}}
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		c.Devices = append(c.Devices, devices[name])
	}
	text, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return fmt.Errorf("write memory: %w", err)
	}
	f.removeUnfinished()
	t, err := os.CreateTemp(f.dir, Name+unfinished+"*")
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path(), withoutFileName(err))
	}
	_, err = t.Write(append(text, '\n'))
	if err = errors.Join(err, chownLikeDir(t, f.dir), t.Sync(), t.Close()); err == nil {
		err = os.Rename(t.Name(), f.path())
	}
	if err != nil {
		_ = os.Remove(t.Name()) // the first error is the one to report
		return fmt.Errorf("write %s: %w", f.path(), withoutFileName(err))
	}
	return syncDir(f.dir)
}

// removeUnfinished removes files that a killed process left unfinished. The caller holds the lock, so that no other process writes.
func (f *file) removeUnfinished() {
	left, _ := filepath.Glob(filepath.Join(f.dir, Name+unfinished+"*")) // the pattern is valid
	for _, path := range left {
		_ = os.Remove(path)
	}
}

// syncDir syncs a directory, which makes the name of a new file durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("write memory: %w", err)
	}
	return nil
}

// withoutFileName removes the name of the new file from an error, since the name differs each time.
func withoutFileName(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// chownLikeDir gives a file written by root to the owner of the directory, so that the plugin can read it.
func chownLikeDir(f *os.File, dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return f.Chown(int(st.Uid), int(st.Gid))
	}
	return nil
}
