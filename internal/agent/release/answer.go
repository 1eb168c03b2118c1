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
	// suffix is that of the sockets.
	suffix = ".sock"
	// again is how often a Server looks whether the workers have ended.
	again = 20 * time.Millisecond
	// longest is how long a Server answers at most. A worker is killed long before (process.Timing).
	longest = 30 * time.Second
	// most is how many commands a Server answers at a time.
	most = 8
	// maxAnswer limits what is read of a plugin.
	maxAnswer = 1 << 20
)

// Device is a device of a plugin that a release concerns.
type Device struct {
	Device string `json:"device"`
	Open   bool   `json:"open"` // its worker still runs
	// Held says why the device is not closed and will not be soon; "" otherwise.
	Held string `json:"held,omitempty"`
}

// Answer is how the devices of a plugin are after it has read the releases again.
type Answer struct {
	PID      int      `json:"pid"`
	Released []Device `json:"released"`
	// Resumed are the devices that the release no longer concerns.
	Resumed []string `json:"resumed,omitempty"`
	Error   string   `json:"error,omitempty"`
	// Stopping: the plugin is about to end, or has not begun, so that it has to be asked again if it is still there.
	Stopping bool `json:"stopping,omitempty"`
}

// closed reports whether no worker has a released device open, except those that the kernel holds.
func (a *Answer) closed() bool {
	return !slices.ContainsFunc(a.Released, func(d Device) bool { return d.Open && d.Held == "" })
}

// Host is the plugin that a Server answers for. Its methods may be called concurrently.
type Host interface {
	// Review reads the releases, and has the workers of released devices close them. It does not wait for that. It returns an error if
	// ctx ends first.
	Review(ctx context.Context) error
	// Released returns the devices of the plugin that are released, sorted by name.
	Released() []Device
}

// Server answers `rdma-events release` and `resume`.
type Server struct {
	path     string
	host     Host
	listener *net.UnixListener
}

// Listen makes the socket of this process in a directory, in place of those of processes that have ended. The caller calls Serve.
func Listen(dir string, host Host) (*Server, error) {
	sweep(dir)
	s := &Server{host: host, path: filepath.Join(dir, fmt.Sprintf("%d-%s%s", os.Getpid(), namespace(), suffix))}
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

// namespace returns the number of this process' PID namespace: containers that share the directory may have equal PIDs.
func namespace() string {
	link, err := os.Readlink("/proc/self/ns/pid") // namespaces(7)
	if err != nil {
		return "0"
	}
	return strings.Trim(link, "pid:[]")
}

// sweep removes the sockets of processes that have ended.
func sweep(dir string) {
	for _, path := range sockets(dir) {
		c, err := net.DialTimeout("unix", path, time.Second)
		switch {
		case errors.Is(err, unix.ECONNREFUSED):
			_ = os.Remove(path) // one that stays is refused by everybody
		case err == nil:
			_ = c.Close()
		}
	}
}

func sockets(dir string) []string {
	entries, _ := os.ReadDir(dir) // what cannot be read has no plugin that could be asked
	var paths []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == suffix && e.Type() == os.ModeSocket {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// Serve answers until ctx is done, and then removes the socket and waits for all answers.
func (s *Server) Serve(ctx context.Context) {
	var answers sync.WaitGroup
	defer answers.Wait()
	defer context.AfterFunc(ctx, func() { _ = s.listener.Close() })() // which removes the file, too
	slots := make(chan struct{}, most)
	for {
		c, err := s.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // as EMFILE, which passes
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
			_ = c.Close() // the command says that there was no answer
			continue
		}
		answers.Go(func() {
			defer func() { <-slots }()
			s.answer(ctx, c)
		})
	}
}

// Close removes the socket of a Server that does not serve. It may be called after Serve.
func (s *Server) Close() error {
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close socket for releases: %w", err)
	}
	return nil
}

// answer answers one command: once no worker has a released device open, or it cannot close it.
func (s *Server) answer(ctx context.Context, c *net.UnixConn) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	defer func() { _ = c.Close() }() // the command sees an answer that is not whole
	_ = c.SetDeadline(time.Now().Add(longest))
	a := Answer{PID: os.Getpid()}
	if err := permit(c); err != nil {
		a.Error = err.Error()
	} else {
		a = s.review(ctx)
	}
	_ = json.NewEncoder(c).Encode(a) // a command that has gone needs no answer
}

func (s *Server) review(ctx context.Context) Answer {
	a := Answer{PID: os.Getpid()}
	before := s.host.Released()
	if err := s.host.Review(ctx); err != nil {
		a.Stopping = true
		return a
	}
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		a.Released = s.host.Released()
		if a.closed() {
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

// permit returns an error unless the other end is root or this process' user (SO_PEERCRED, unix(7)).
func permit(c *net.UnixConn) error {
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

// Plugin is a running plugin that was asked.
type Plugin struct {
	Answer
	Err error // why there is no answer; nil: there is
}

// Ask has all plugins with a socket in a directory read the releases again, and returns how their devices are once the workers have
// closed those that are released. Err of a plugin that does not answer before ctx ends says so.
func Ask(ctx context.Context, dir string) []Plugin {
	paths := sockets(dir)
	all := make([]Plugin, len(paths))
	var wg sync.WaitGroup
	for i, path := range paths {
		wg.Go(func() { all[i] = askOne(ctx, path) })
	}
	wg.Wait()
	return slices.DeleteFunc(all, func(p Plugin) bool {
		// One that has ended left its socket, or removed it a moment ago.
		return errors.Is(p.Err, unix.ECONNREFUSED) || errors.Is(p.Err, os.ErrNotExist)
	})
}

// askOne asks one plugin, again while it is stopping. One that has ended has closed its devices.
func askOne(ctx context.Context, path string) (p Plugin) {
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

func askOnce(ctx context.Context, path string) (p Plugin) {
	number, _, _ := strings.Cut(filepath.Base(path), "-")
	_, _ = fmt.Sscan(number, &p.PID) // 0 where it is no socket of ours
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		p.Err = fmt.Errorf("ask plugin: %w", err)
		return p
	}
	defer func() { _ = c.Close() }() // it is only read
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	if err := json.NewDecoder(io.LimitReader(c, maxAnswer)).Decode(&p.Answer); err != nil {
		p.Err = fmt.Errorf("%w: %w", errNoAnswer, err)
	} else if p.Error != "" {
		p.Err = fmt.Errorf("ask plugin: %s", p.Error)
	}
	return p
}
