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

// stopTimeout is how long a server may take to write what it has in memory.
const stopTimeout = 20 * time.Second

// Config says which server to run.
type Config struct {
	Program string // the path of influxd
	Dir     string // where it keeps everything; must exist, stays the caller's
	Addr    string // host:port of its HTTP service; "" is a free port of 127.0.0.1

	// Cold is after how long without writes a shard is written to its files and
	// compacted for good; 0 is four hours, the server's default of the latter.
	Cold time.Duration
}

// Server is a running InfluxDB. Its methods may be called concurrently.
type Server struct {
	process *child.Process
	log     *logTail
	addr    string
}

// Open starts a server and blocks until it answers. The caller closes it; a
// context that ends meanwhile ends the server too.
func Open(ctx context.Context, c Config) (*Server, error) {
	conf := filepath.Join(c.Dir, "influxdb.conf")
	if err := os.WriteFile(conf, []byte(c.text()), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration of influxd: %w", err)
	}
	s := &Server{log: newLogTail()}
	cmd := exec.Command(c.Program, "run", "-config", conf)
	// INFLUXDB_* of the environment would change what is configured here.
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

// Addr is host:port of the HTTP service, URL the same as Grafana and Telegraf
// are told it.
func (s *Server) Addr() string { return s.addr }

// URL is "http://" and Addr.
func (s *Server) URL() string { return "http://" + s.addr }

// PID is the server's process.
func (s *Server) PID() int { return s.process.PID() }

// Done is closed when the server has exited.
func (s *Server) Done() <-chan struct{} { return s.process.Done() }

// Log returns the end of the server's log.
func (s *Server) Log() string { return s.log.String() }

// Close has the server write what it holds and waits until it has exited. It
// may be called more than once. The error says that it had to be killed.
func (s *Server) Close() error { return s.process.Stop(stopTimeout) }
