package hotplug

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// host is a sysfs and a /dev made by the test, with the layout of Linux 6.1.
type host struct {
	t          *testing.T
	sysfs, dev string

	mu      sync.Mutex
	indexes map[string]int
	types   map[string]Type // of the devices that have an index
}

func newHost(t *testing.T) *host {
	t.Helper()
	root := t.TempDir()
	h := &host{t: t, sysfs: filepath.Join(root, "sys"), dev: filepath.Join(root, "dev"), indexes: map[string]int{}, types: map[string]Type{}}
	require.NoError(t, os.MkdirAll(filepath.Join(h.sysfs, "class/infiniband"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(h.sysfs, "class/infiniband_verbs"), 0o755))
	return h
}

func (h *host) config(uevents func() (Source, error)) Config {
	return Config{
		SysfsRoot: h.sysfs,
		DevRoot:   h.dev,
		Uevents:   uevents,
		Indexes:   h.readIndexes,
		Types:     h.readTypes,
		// By default the tests watch a removal by uevents and by inotify.
		UeventsReach: func() bool { return false },
	}
}

func (h *host) readIndexes() (map[string]int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.indexes), nil
}

func (h *host) readTypes() (map[string]Type, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	told := make(map[string]Type)
	for name := range h.indexes {
		told[name] = h.types[name]
	}
	return told, nil
}

// setType sets the type in RDMA netlink's answer.
func (h *host) setType(name string, t Type) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.types[name] = t
}

// setIndex sets the index in RDMA netlink's answer; index < 0 removes the name from it.
func (h *host) setIndex(name string, index int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if index < 0 {
		delete(h.indexes, name)
		return
	}
	h.indexes[name] = index
}

func (h *host) write(path, content string) {
	h.t.Helper()
	require.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(h.t, os.WriteFile(path, []byte(content), 0o644))
}

// add makes a soft device; index < 0 leaves its index unknown.
func (h *host) add(name, node, guid string, index int) {
	h.t.Helper()
	h.write(filepath.Join(h.sysfs, "devices/virtual/infiniband", name, "node_guid"), guid+"\n")
	h.link("infiniband", name)
	h.setIndex(name, index)
	if node != "" {
		h.addNode(name, node)
	}
}

func (h *host) addNode(name, node string) {
	h.t.Helper()
	h.write(filepath.Join(h.sysfs, "devices/virtual/infiniband_verbs", node, "ibdev"), name+"\n")
	h.link("infiniband_verbs", node)
	h.write(h.nodePath(node), "")
}

func (h *host) link(class, name string) {
	h.t.Helper()
	target := filepath.Join("../../devices/virtual", class, name)
	require.NoError(h.t, os.Symlink(target, filepath.Join(h.sysfs, "class", class, name)))
}

// unlink removes an entry of a class and the device behind it.
func (h *host) unlink(class, name string) {
	h.t.Helper()
	require.NoError(h.t, os.Remove(filepath.Join(h.sysfs, "class", class, name)))
	require.NoError(h.t, os.RemoveAll(filepath.Join(h.sysfs, "devices/virtual", class, name)))
}

func (h *host) remove(name, node string) {
	h.t.Helper()
	h.unlink("infiniband_verbs", node)
	h.unlink("infiniband", name)
	require.NoError(h.t, os.Remove(h.nodePath(node)))
	h.setIndex(name, -1)
}

func (h *host) nodePath(node string) string { return filepath.Join(h.dev, "infiniband", node) }

// uevents is a Source whose messages the test sends.
type uevents struct {
	messages chan message
	closed   chan struct{}
	once     sync.Once
}

type message struct {
	text string
	err  error
}

func newUevents() *uevents {
	return &uevents{messages: make(chan message), closed: make(chan struct{})}
}

func (u *uevents) open() (Source, error) { return u, nil }

func (u *uevents) send(fields ...string) {
	u.messages <- message{text: strings.Join(fields, "\x00") + "\x00"}
}

func (u *uevents) fail(err error) { u.messages <- message{err: err} }

func (u *uevents) Receive() ([]byte, error) {
	select {
	case m := <-u.messages:
		return []byte(m.text), m.err
	case <-u.closed:
		return nil, os.ErrClosed
	}
}

func (u *uevents) Close() error {
	u.once.Do(func() { close(u.closed) })
	return nil
}

var errRefused = errors.New("refused by the test")

func refuseSource() (Source, error) { return nil, errRefused }

// Uevents in the format of Linux 6.1.
func nodeEvent(action, node string) []string {
	path := "/devices/virtual/infiniband_verbs/" + node
	return []string{
		action + "@" + path, "ACTION=" + action, "DEVPATH=" + path, "SUBSYSTEM=infiniband_verbs",
		"MAJOR=231", "MINOR=192", "DEVNAME=infiniband/" + node, "DEVMODE=0666", "SEQNUM=1042",
	}
}

func deviceEvent(action, name string) []string {
	path := "/devices/virtual/infiniband/" + name
	return []string{
		action + "@" + path, "ACTION=" + action, "DEVPATH=" + path, "SUBSYSTEM=infiniband",
		"NAME=" + name, "SEQNUM=1043",
	}
}
