package influx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"rdma_events/tests/child"
)

// ErrExited is wrapped by Open when the server ended before it was ready; the
// text has the end of its log.
var ErrExited = errors.New("influxd has exited")

// stopTimeout is how long a server may take to write its data from memory.
const stopTimeout = 20 * time.Second

// Config describes the server to run.
type Config struct {
	Program string // the path of influxd
	Dir     string // for all files of the server; it must exist, and Close does not remove it
	Addr    string // host:port of its HTTP service; "" is a free port of 127.0.0.1

	// Cold is the time without writes after which the server writes a shard to its
	// files and compacts it fully; 0 is four hours, the server's default for
	// compaction.
	Cold time.Duration
}

// Server is a running InfluxDB. Its methods may be called concurrently.
type Server struct {
	process *child.Process
	log     *logTail
	addr    string
}

// Open starts a server and blocks until it answers. The caller must close it. If
// ctx ends before the server answers, Open stops the server. The error wraps
// ErrExited if the server ended before it was ready.
func Open(ctx context.Context, c Config) (*Server, error) {
	conf := filepath.Join(c.Dir, "influxdb.conf")
	if err := os.WriteFile(conf, []byte(c.text()), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration of influxd: %w", err)
	}
	s := &Server{log: newLogTail()}
	cmd := exec.Command(c.Program, "run", "-config", conf)
	// Variables INFLUXDB_* in the environment would override this configuration.
	cmd.Env = []string{"HOME=" + c.Dir, "PATH=" + os.Getenv("PATH")}
	cmd.Stderr = s.log
	var err error
	if s.process, err = child.Start(cmd); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (c *Config) text() string {
	addr := c.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	cold := c.Cold
	if cold == 0 {
		cold = 4 * time.Hour
	}
	return fmt.Sprintf(`reporting-disabled = true
bind-address = "127.0.0.1:0"
[meta]
  dir = %[1]q
[data]
  dir = %[2]q
  wal-dir = %[3]q
  query-log-enabled = false
  cache-snapshot-write-cold-duration = "%[4]v"
  compact-full-write-cold-duration = "%[4]v"
[continuous_queries]
  log-enabled = false
[monitor]
  store-enabled = false
[http]
  bind-address = %[5]q
  log-enabled = false
`, filepath.Join(c.Dir, "meta"), filepath.Join(c.Dir, "data"), filepath.Join(c.Dir, "wal"), cold, addr)
}

func (s *Server) ready(ctx context.Context) error {
	select {
	case s.addr = <-s.log.addr:
	case <-s.process.Done():
		return fmt.Errorf("%w (%s): %s", ErrExited, s.process.State(), s.log)
	case <-ctx.Done():
		return fmt.Errorf("wait for influxd: %w", ctx.Err())
	}
	return s.ping(ctx)
}

// Addr returns host:port of the HTTP service.
func (s *Server) Addr() string { return s.addr }

// URL returns "http://" and Addr, for the configuration of Grafana and Telegraf.
func (s *Server) URL() string { return "http://" + s.addr }

// PID returns the process ID of the server.
func (s *Server) PID() int { return s.process.PID() }

// Done returns a channel that is closed when the server has exited.
func (s *Server) Done() <-chan struct{} { return s.process.Done() }

// Log returns the end of the server's log.
func (s *Server) Log() string { return s.log.String() }

// Close makes the server write its data from memory and waits until it has exited.
// It may be called more than once. The error wraps child.ErrKilled if the server
// had to be killed.
func (s *Server) Close() error { return s.process.Stop(stopTimeout) }
