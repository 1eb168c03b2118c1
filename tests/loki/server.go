package loki

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"rdma_events/tests/child"
)

// ErrRefused is wrapped by errors about a query that the server refused.
var ErrRefused = errors.New("refused by Loki")

const stopTimeout = 60 * time.Second

// configuration is the configuration file of a Loki that runs as one process, keeps its files in one directory and sends no usage
// statistics. The arguments of the format are the port for HTTP, the port for gRPC and the directory.
const configuration = `
auth_enabled: false
analytics: {reporting_enabled: false}
server: {http_listen_address: 127.0.0.1, http_listen_port: %s, grpc_listen_address: 127.0.0.1, grpc_listen_port: %s, log_level: warn}
common:
  instance_addr: 127.0.0.1
  path_prefix: %s
  replication_factor: 1
  ring: {kvstore: {store: inmemory}}
  storage: {filesystem: {chunks_directory: %[3]s/chunks, rules_directory: %[3]s/rules}}
schema_config:
  configs: [{from: 2020-10-24, store: tsdb, object_store: filesystem, schema: v13, index: {prefix: index_, period: 24h}}]
`

// Line is a line of a log with all labels of a query's result: those of its stream and those that the query took from the line.
type Line struct {
	Labels map[string]string
	At     int64 // unix ns
	Text   string
}

// Server is a running Loki. Its methods may be called concurrently.
type Server struct {
	process *child.Process
	log     *os.File
	addr    string
}

// Open starts a server with its files in a directory that exists, and blocks until it is ready, which takes some 20 s. The caller
// must close it. The error wraps child.ErrExited if the server ended before it was ready.
func Open(ctx context.Context, program, dir string) (*Server, error) {
	s := &Server{}
	ports, err := child.FreePorts(ctx, 2)
	if err != nil {
		return nil, err
	}
	s.addr = net.JoinHostPort("127.0.0.1", ports[0])
	conf := filepath.Join(dir, "loki.yaml")
	if err := os.WriteFile(conf, fmt.Appendf(nil, configuration, ports[0], ports[1], dir), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration of loki: %w", err)
	}
	if s.log, err = os.Create(filepath.Join(dir, "loki.log")); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-config.file="+conf)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if s.process, err = child.Start(cmd); err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	if err := s.process.AwaitReady(ctx, s.URL()+"/ready"); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; its log is %s", err, s.log.Name()), s.Close())
	}
	return s, nil
}

// URL returns the address of the HTTP service.
func (s *Server) URL() string { return "http://" + s.addr }

// Close stops the server and waits until it has exited. The error wraps child.ErrKilled if the server had to be killed.
func (s *Server) Close() error {
	return errors.Join(s.process.Stop(stopTimeout), s.log.Close())
}

// Lines returns the lines of a query in LogQL from one time to another, at most 5,000. The error wraps ErrRefused if the server
// does not accept the query.
func (s *Server) Lines(ctx context.Context, query string, from, to time.Time) ([]Line, error) {
	form := url.Values{
		"query": {query}, "limit": {"5000"},
		"start": {strconv.FormatInt(from.UnixNano(), 10)}, "end": {strconv.FormatInt(to.UnixNano(), 10)},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/loki/api/v1/query_range?"+form.Encode(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("query %s: %w: %s", query, ErrRefused, resp.Status)
	}
	var answer struct {
		Data struct {
			Result []struct {
				Stream map[string]string
				Values [][2]string
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("decode answer to %s: %w", query, err)
	}
	var lines []Line
	for _, r := range answer.Data.Result {
		for _, v := range r.Values {
			at, err := strconv.ParseInt(v[0], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read time of a line of %s: %w", query, err)
			}
			lines = append(lines, Line{Labels: r.Stream, At: at, Text: v[1]})
		}
	}
	return lines, nil
}
