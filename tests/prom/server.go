package prom

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"rdma_events/tests/child"
)

const stopTimeout = 60 * time.Second

// Config describes the server to run.
type Config struct {
	Program string // the path of prometheus
	Dir     string // for its files; it must exist, and Close does not remove it
	// Lookback is how old the last sample of a series may be. Blocks that promtool
	// made have no mark where a series ends, as scrapes set it; the time of two
	// scrapes comes near to that. 0 is the server's default.
	Lookback time.Duration
}

// blocksDir returns the directory of a server's blocks.
func blocksDir(dir string) string { return filepath.Join(dir, "data") }

// Server is a running Prometheus, which scrapes nothing. Its methods may be called
// concurrently.
type Server struct {
	process *child.Process
	log     *os.File
	addr    string
}

// Open starts a server and blocks until it is ready. The caller must close it. The
// error wraps child.ErrExited if the server ended before it was ready.
func Open(ctx context.Context, c Config) (*Server, error) {
	conf := filepath.Join(c.Dir, "prometheus.yml")
	if err := os.WriteFile(conf, []byte("global: {}\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration of prometheus: %w", err)
	}
	s := &Server{}
	ports, err := child.FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	s.addr = net.JoinHostPort("127.0.0.1", ports[0])
	if s.log, err = os.Create(filepath.Join(c.Dir, "prometheus.log")); err != nil {
		return nil, err
	}
	args := []string{
		"--config.file=" + conf, "--storage.tsdb.path=" + blocksDir(c.Dir), "--storage.tsdb.retention.time=100y",
		"--web.listen-address=" + s.addr, "--query.max-samples=500000000",
	}
	if c.Lookback > 0 {
		args = append(args, "--query.lookback-delta="+c.Lookback.String())
	}
	cmd := exec.Command(c.Program, args...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if s.process, err = child.Start(cmd); err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	if err := s.process.AwaitReady(ctx, s.URL()+"/-/ready"); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; its log is %s", err, s.log.Name()), s.Close())
	}
	return s, nil
}

// URL returns the address of the HTTP service.
func (s *Server) URL() string { return "http://" + s.addr }

// PID returns the process ID of the server.
func (s *Server) PID() int { return s.process.PID() }

// Close stops the server and waits until it has exited. The error wraps
// child.ErrKilled if the server had to be killed.
func (s *Server) Close() error {
	return errors.Join(s.process.Stop(stopTimeout), s.log.Close())
}
