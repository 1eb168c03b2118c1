package release

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// suffix is the suffix of the names of the sockets.
	suffix = ".sock"
	// checkInterval is the time between two checks of a Server whether the workers have ended.
	checkInterval = 20 * time.Millisecond
	// answerTimeout is the longest time for which a Server works on an answer. A worker is killed much earlier
	// (process.Timing).
	answerTimeout = 30 * time.Second
	// maxCommands is the maximum number of commands that a Server answers at the same time.
	maxCommands = 8
	// maxAnswer is the maximum size of a plugin's answer, in bytes.
	maxAnswer = 1 << 20
)

// Device is a released device of a plugin.
type Device struct {
	Device string `json:"device"`
	Open   bool   `json:"open"` // its worker is still running
	// Held is the reason why the device will not be closed soon, or "".
	Held string `json:"held,omitempty"`
}

// Answer is the state of a plugin's devices after the plugin has read the releases again.
type Answer struct {
	PID      int      `json:"pid"`
	Released []Device `json:"released"`
	// Resumed lists the devices that were released before and are not released any more.
	Resumed []string `json:"resumed,omitempty"`
	Error   string   `json:"error,omitempty"`
	// Stopping is set while the plugin starts or ends. The command must ask again if the plugin still exists.
	Stopping bool `json:"stopping,omitempty"`
}

// isClosed reports whether all released devices are closed, except for those that the kernel holds.
func (a *Answer) isClosed() bool {
	return !slices.ContainsFunc(a.Released, func(d Device) bool { return d.Open && d.Held == "" })
}

// PluginState is the plugin that a Server answers for. Its methods may be called concurrently.
type PluginState interface {
	// ApplyReleases reads the releases and tells the workers of released devices to close them. It does not wait for
	// the workers. It returns an error if ctx ends first.
	ApplyReleases(ctx context.Context) error
	// ReleasedDevices returns the released devices of the plugin, sorted by name.
	ReleasedDevices() []Device
}

// Server answers the commands `rdma-events release` and `rdma-events resume` on a socket.
type Server struct {
	path     string
	plugin   PluginState
	listener *net.UnixListener
}

// Listen creates the socket of this process in a directory. It removes sockets of processes that have ended. The caller
// must call Serve or Close.
func Listen(dir string, host PluginState) (*Server, error) {
	removeStaleSockets(dir)
	s := &Server{plugin: host, path: filepath.Join(dir, fmt.Sprintf("%d-%s%s", os.Getpid(), pidNamespace(), suffix))}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for releases: %w", err)
	}
	if err := os.Chmod(s.path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for releases: %w", err), l.Close())
	}
	s.listener = l
	return s, nil
}

// pidNamespace returns the number of this process's PID namespace. It is part of the socket's name, because containers
// that share the directory may have equal PIDs.
func pidNamespace() string {
	link, err := os.Readlink("/proc/self/ns/pid") // namespaces(7)
	if err != nil {
		return "0"
	}
	return strings.Trim(link, "pid:[]")
}

// removeStaleSockets removes the sockets of processes that have ended.
func removeStaleSockets(dir string) {
	for _, path := range listSockets(dir) {
		c, err := net.DialTimeout("unix", path, time.Second)
		switch {
		case errors.Is(err, unix.ECONNREFUSED):
			_ = os.Remove(path) // nobody can connect to one that remains
		case err == nil:
			_ = c.Close()
		}
	}
}

// listSockets returns the paths of the sockets in a directory.
func listSockets(dir string) []string {
	entries, _ := os.ReadDir(dir) // without the directory there is no plugin to ask
	var paths []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == suffix && e.Type() == os.ModeSocket {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// Serve answers commands until ctx is done. It then removes the socket and waits until all answers are complete.
func (s *Server) Serve(ctx context.Context) {
	var answers sync.WaitGroup
	defer answers.Wait()
	defer context.AfterFunc(ctx, func() { _ = s.listener.Close() })() // it also removes the file
	slots := make(chan struct{}, maxCommands)
	for {
		c, err := s.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // a temporary error such as EMFILE
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			_ = c.Close() // the command reports that there was no answer
			continue
		}
		answers.Go(func() {
			defer func() { <-slots }()
			s.answerCommand(ctx, c)
		})
	}
}

// Close removes the socket of a Server on which Serve has not been called. It may also be called after Serve.
func (s *Server) Close() error {
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close socket for releases: %w", err)
	}
	return nil
}

// answerCommand answers one command. It waits until the workers have closed all released devices, or until it is known
// that a device cannot be closed.
func (s *Server) answerCommand(ctx context.Context, c *net.UnixConn) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	defer func() { _ = c.Close() }() // the command detects an incomplete answer
	_ = c.SetDeadline(time.Now().Add(answerTimeout))
	a := Answer{PID: os.Getpid()}
	if err := checkPeerUser(c); err != nil {
		a.Error = err.Error()
	} else {
		a = s.applyAndWait(ctx)
	}
	_ = json.NewEncoder(c).Encode(a) // the command may have exited
}

// applyAndWait applies the releases and waits until all released devices are closed.
func (s *Server) applyAndWait(ctx context.Context) Answer {
	a := Answer{PID: os.Getpid()}
	before := s.plugin.ReleasedDevices()
	if err := s.plugin.ApplyReleases(ctx); err != nil {
		a.Stopping = true
		return a
	}
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		a.Released = s.plugin.ReleasedDevices()
		if a.isClosed() {
			break
		}
		select {
		case <-ctx.Done():
			a.Stopping = true
			return a
		case <-tick.C:
		}
	}
	for _, b := range before {
		if !slices.ContainsFunc(a.Released, func(d Device) bool { return d.Device == b.Device }) {
			a.Resumed = append(a.Resumed, b.Device)
		}
	}
	return a
}

// checkPeerUser returns an error unless the peer of the socket runs as root or as this process's user (SO_PEERCRED,
// unix(7)).
func checkPeerUser(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("find the user of the command: %w", err)
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = cmp.Or(failed, err); err != nil {
		return fmt.Errorf("find the user of the command: %w", err)
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("user %d may not release devices: root and user %d may", peer.Uid, os.Geteuid())
	}
	return nil
}

// Plugin is the answer of a running plugin to AskPlugins.
type Plugin struct {
	Answer
	Err error // why there is no answer; nil if Answer is set
}

// AskPlugins asks all plugins with a socket in a directory to read the releases again. It returns the state of their
// devices once the workers have closed the released ones. Err is set for a plugin that does not answer before ctx ends.
func AskPlugins(ctx context.Context, dir string) []Plugin {
	paths := listSockets(dir)
	all := make([]Plugin, len(paths))
	var wg sync.WaitGroup
	for i, path := range paths {
		wg.Go(func() { all[i] = askPlugin(ctx, path) })
	}
	wg.Wait()
	return slices.DeleteFunc(all, func(p Plugin) bool {
		// The plugin has ended, and either left its socket or has just removed it.
		return errors.Is(p.Err, unix.ECONNREFUSED) || errors.Is(p.Err, os.ErrNotExist)
	})
}

// askPlugin asks one plugin, and asks again while the plugin is stopping. A plugin that has ended has closed its
// devices.
func askPlugin(ctx context.Context, path string) (p Plugin) {
	const pause = 100 * time.Millisecond
	for {
		if p = askOnce(ctx, path); p.Err == nil && !p.Stopping {
			return p
		}
		if p.Err != nil && !errors.Is(p.Err, errNoAnswer) {
			return p
		}
		select {
		case <-ctx.Done():
			p.Err = errors.New("ask plugin: it has not closed all within the time")
			return p
		case <-time.After(pause):
		}
	}
}

var errNoAnswer = errors.New("ask plugin: there is no whole answer")

// askOnce sends one request to a plugin and reads its answer.
func askOnce(ctx context.Context, path string) (p Plugin) {
	number, _, _ := strings.Cut(filepath.Base(path), "-")
	_, _ = fmt.Sscan(number, &p.PID) // stays 0 if the name has no PID
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		p.Err = fmt.Errorf("ask plugin: %w", err)
		return p
	}
	defer func() { _ = c.Close() }() // the connection is only read
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	if err := json.NewDecoder(io.LimitReader(c, maxAnswer)).Decode(&p.Answer); err != nil {
		p.Err = fmt.Errorf("%w: %w", errNoAnswer, err)
	} else if p.Error != "" {
		p.Err = fmt.Errorf("ask plugin: %s", p.Error)
	}
	return p
}
