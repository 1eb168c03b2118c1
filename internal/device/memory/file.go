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
	// Name is that of the file in the state directory.
	Name = "memory.json"
	// unfinished is in the names of files that are being written.
	unfinished = ".new"
	// maxSize limits what is read: a device takes some 300 bytes.
	maxSize = 1 << 20
)

// The errors about what is in the file.
var (
	// ErrOtherMachine is wrapped by the error about a file that another machine wrote, as with a copied image of a disk.
	ErrOtherMachine = errors.New("it is of another machine")
	errDamaged      = errors.New("it is damaged")
)

// content is what the file has.
type content struct {
	Schema  int       `json:"schema"`
	Machine string    `json:"machine_id"` // machine-id(5); "" if it was unknown
	Devices []*Device `json:"devices"`
}

// file is a memory's file.
type file struct {
	dir, machine string
	synced       map[string]*Device // as the file was after the last Sync
	seen         fs.FileInfo        // nil: there was none
	looked       bool
}

// Machine returns the identifier of this machine (machine-id(5)), "" if it has none, as in many containers.
func Machine() string {
	text, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Open returns the Memory of a machine in a state directory. It is usable also with an error, which says why the memory begins anew,
// on one line: the file is of another machine, is damaged or cannot be read. A file that is not there is no error.
//
// On a host without a machine ID, only a file that was also written without a machine ID is used.
func Open(dir, machine string, now func() time.Time) (*Memory, error) {
	m := New(now)
	m.file = &file{dir: dir, machine: machine, synced: map[string]*Device{}}
	_, err := m.Sync()
	return m, err
}

// Forgotten is a device, or with Port a port of it, that another process has removed from the file.
type Forgotten struct {
	Device string
	Port   int // 0: the device with its ports
}

// Sync exchanges the Memory with its file. It writes the file only if this process has learned or forgotten something, takes over what other
// processes have learned, and returns what they have forgotten. It blocks for the file system, and for other processes' Syncs
// some milliseconds. A file that is not valid is replaced as soon as there is something to write.
func (m *Memory) Sync() ([]Forgotten, error) {
	if m.file == nil {
		return nil, nil
	}
	f := m.file
	differs := f.differs()
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
		m.keepAll()
	}
	forgotten, next := m.merge(there)
	if next != nil {
		if err := f.writeDevices(next); err != nil {
			m.retry(next)
			return forgotten, err
		}
	}
	f.remember()
	if !differs {
		invalid = nil // the Sync before has returned it
	}
	return forgotten, invalid
}

// keepAll makes what this process has replace a file that is not valid.
func (m *Memory) keepAll() {
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

// merge takes over what other processes have changed in the file, and returns what they have forgotten, and the devices to write; nil if
// there is nothing to write.
func (m *Memory) merge(there map[string]*Device) (forgotten []Forgotten, next map[string]*Device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, was := range m.file.synced {
		forgotten = append(forgotten, m.takeForgotten(was, there[name])...)
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
	m.limit()
	next = maps.Clone(m.devices)
	m.file.synced, m.changed = next, map[string]bool{}
	return forgotten, next
}

// withPorts returns the device with the ports that another process has added since the last Sync.
func (d *Device) withPorts(now, was *Device) *Device {
	if now == nil {
		return d
	}
	for _, p := range now.Ports {
		at, own := d.port(p.Port)
		known := false
		if was != nil {
			_, known = was.port(p.Port)
		}
		if !own && !known && len(d.Ports) < maxPorts {
			d = d.clone()
			d.Ports = slices.Insert(d.Ports, at, p)
		}
	}
	return d
}

// takeForgotten compares a device as the file had it with the file now, and forgets what is no longer there. The caller holds m.mu.
func (m *Memory) takeForgotten(was, now *Device) []Forgotten {
	own := m.devices[was.Name]
	if now == nil {
		delete(m.changed, was.Name)
		delete(m.devices, was.Name)
		if own == nil {
			return nil // this process has forgotten it too
		}
		return []Forgotten{{Device: was.Name}}
	}
	var all []Forgotten
	for _, p := range was.Ports {
		if _, ok := now.port(p.Port); ok || own == nil {
			continue
		}
		if at, ok := own.port(p.Port); ok {
			own = own.clone()
			own.Ports = slices.Delete(own.Ports, at, at+1)
			m.devices[was.Name] = own
			all = append(all, Forgotten{was.Name, p.Port})
		}
	}
	return all
}

// retry makes the next Sync write what this one could not.
func (m *Memory) retry(next map[string]*Device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.file.synced = map[string]*Device{}
	for name := range next {
		m.changed[name] = true
	}
}

// Look makes Run look at the file soon. It does not block.
func (m *Memory) Look() {
	m.wake.Send()
}

// Run exchanges the Memory with its file whenever something has changed and after each Look, until ctx is done, and then once more. It
// calls forgotten for what other processes have removed. It logs the first of several errors in a row.
func (m *Memory) Run(ctx context.Context, forgotten func(Forgotten), log *slog.Logger) {
	failing := false
	sync := func() {
		all, err := m.Sync()
		for _, f := range all {
			forgotten(f)
		}
		if err != nil && !failing {
			log.Warn("memory: " + err.Error())
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
// there. It needs no running plugin; one that runs notices it at its next interval. An error of a user who may not write to the directory
// wraps os.ErrPermission, and without a memory it wraps os.ErrNotExist.
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

// differs reports whether the file has changed since the last Sync.
func (f *file) differs() bool {
	info, err := os.Lstat(f.path())
	if err != nil {
		info = nil
	}
	if !f.looked || (info == nil) != (f.seen == nil) {
		return true
	}
	return info != nil && !filestate.Same(info, f.seen)
}

// remember notes the file as it is now. The caller holds the lock.
func (f *file) remember() {
	f.looked, f.seen = true, nil
	if info, err := os.Lstat(f.path()); err == nil {
		f.seen = info
	}
}

// lockTime is how long a Sync waits for those of other processes.
const lockTime = 2 * time.Second

// lock locks the directory: a file of its own for that would belong to whoever is first, root perhaps.
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
	return func() { _ = dir.Close() }, nil // which ends the lock
}

// read returns the devices that are in the file, none with an error.
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
		return all, fmt.Errorf("%s is not used, and what it has is not remembered: %w", f.path(), err)
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

// check makes sure of what the methods of Device rely on.
func (c *content) check() error {
	for _, d := range c.Devices {
		if d == nil || d.Name == "" || len(d.Ports) > maxPorts || !slices.IsSortedFunc(d.Ports, func(a, b Port) int { return a.Port - b.Port }) {
			return fmt.Errorf("%w: a device in it is not valid", errDamaged)
		}
	}
	return nil
}

// writeDevices replaces the file, by a new one that is complete on the disk.
func (f *file) writeDevices(devices map[string]*Device) error {
	c := content{Schema: schema, Machine: f.machine, Devices: []*Device{}}
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		c.Devices = append(c.Devices, devices[name])
	}
	text, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return fmt.Errorf("write memory: %w", err)
	}
	f.sweep()
	t, err := os.CreateTemp(f.dir, Name+unfinished+"*")
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path(), unnamed(err))
	}
	_, err = t.Write(append(text, '\n'))
	if err = errors.Join(err, giveTo(t, f.dir), t.Sync(), t.Close()); err == nil {
		err = os.Rename(t.Name(), f.path())
	}
	if err != nil {
		_ = os.Remove(t.Name()) // the first error is the one to report
		return fmt.Errorf("write %s: %w", f.path(), unnamed(err))
	}
	return syncDir(f.dir)
}

// sweep removes what a killed process had not finished. The caller holds the lock, so that nobody writes.
func (f *file) sweep() {
	left, _ := filepath.Glob(filepath.Join(f.dir, Name+unfinished+"*")) // the pattern is valid
	for _, path := range left {
		_ = os.Remove(path)
	}
}

// syncDir makes the name of a new file durable.
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

// unnamed returns an error without the name of the new file, which differs each time.
func unnamed(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// giveTo makes the owner of the directory the owner of a file that root has written: the plugin has to read it.
func giveTo(f *os.File, dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return f.Chown(int(st.Uid), int(st.Gid))
	}
	return nil
}
