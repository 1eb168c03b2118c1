package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"rdma_events/assets/influxdb"
	"rdma_events/tests/child"
	"rdma_events/tests/history"
	"rdma_events/tests/influx"
)

// ErrEnded is wrapped by the error of Run if one of the programs has ended by
// itself; the text has the end of its log.
var ErrEnded = errors.New("has ended")

// database is the plugin's own database, as assets/influxdb creates it.
var database = influxdb.Own().Database

const (
	// interval is Telegraf's, in the history and now.
	interval = 5 * time.Second
	past     = time.Hour
	// grace is how long Telegraf may take to write its last points.
	grace = 15 * time.Second
)

// simulated is a host of the demonstration.
type simulated struct{ name, profile, scenario string }

func simulatedHosts() []simulated {
	return []simulated{
		{"mixed", "roce2", "mixed"},
		{"calm-ib", "ib8", "healthy"},
		{"calm-dual", "dual", "healthy"},
	}
}

// Config describes how to run the stack.
type Config struct {
	Programs string    // the directory that `make build` fills
	Addr     string    // host:port of InfluxDB on loopback; "" is a free port
	Out      io.Writer // for the addresses and names that a user needs
	Now      func() time.Time
}

// Run runs the stack until ctx ends, then stops all of it and removes its files.
// It returns nil if all of that succeeds, and an error if a program cannot be
// started or ends by itself.
func Run(ctx context.Context, c Config) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rdma_events-stack-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := c.openDatabase(ctx, dir)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := c.fill(ctx, db); err != nil {
		return unlessEnded(ctx, err)
	}
	return c.collect(ctx, db, dir)
}

// check refuses an address that other hosts could reach.
func (c *Config) check() error {
	if c.Addr == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(c.Addr)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("address %q is not allowed: want a port of a loopback address, as in 127.0.0.1:8086", c.Addr)
	}
	return nil
}

func (c *Config) openDatabase(ctx context.Context, dir string) (*influx.Server, error) {
	data := filepath.Join(dir, "influxdb")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	return influx.Open(ctx, influx.Config{Program: filepath.Join(c.Programs, "tools/influxd"), Dir: data, Addr: c.Addr})
}

// fill writes the hour before now.
func (c *Config) fill(ctx context.Context, db *influx.Server) error {
	if _, err := db.Query(ctx, "", influxdb.Downsampling); err != nil {
		return err
	}
	now := c.Now()
	fmt.Fprintf(c.Out, "writing the hour before now\n")
	h := history.Config{Start: now.Add(-past), End: now, Interval: interval}
	for i, s := range simulatedHosts() {
		h.Hosts = append(h.Hosts, history.Host{Name: s.name, Profile: s.profile, Scenario: s.scenario, Seed: int64(i), Applications: true})
	}
	w := db.NewWriter(ctx, database)
	if err := h.Write(ctx, w); err != nil {
		return err
	}
	return w.Flush()
}

// collect runs Telegraf until ctx ends.
func (c *Config) collect(ctx context.Context, db *influx.Server, dir string) (err error) {
	log := filepath.Join(dir, "telegraf.log")
	telegraf, err := c.startTelegraf(db, dir, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, telegraf.Stop(grace)) }()
	c.announce(db, log)
	select {
	case <-ctx.Done():
		fmt.Fprintln(c.Out, "stopping")
		return nil
	case <-telegraf.Done():
		text, _ := os.ReadFile(log) // the error has as much of the log as can be read
		return fmt.Errorf("telegraf %w (%s):\n%s", ErrEnded, telegraf.State(), logTail(string(text)))
	case <-db.Done():
		return fmt.Errorf("influxd %w:\n%s", ErrEnded, logTail(db.Log()))
	}
}

func (c *Config) startTelegraf(db *influx.Server, dir, log string) (*child.Process, error) {
	conf := filepath.Join(dir, "telegraf.conf")
	text := agentConfig(db.URL())
	for i, s := range simulatedHosts() {
		own := filepath.Join(dir, s.name+".conf")
		if err := os.WriteFile(own, []byte(pluginConfig(s, i)), 0o600); err != nil {
			return nil, fmt.Errorf("write configuration: %w", err)
		}
		text += inputConfig(filepath.Join(c.Programs, "rdma-events"), own, s.name)
	}
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	out, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(filepath.Join(c.Programs, "tools/telegraf"), "--config", conf)
	cmd.Stdout, cmd.Stderr = out, out
	return child.Start(cmd)
}

func (c *Config) announce(db *influx.Server, log string) {
	var names []string
	for _, s := range simulatedHosts() {
		names = append(names, s.name)
	}
	fmt.Fprintf(c.Out, `
InfluxDB:  %s  database %s, no user, no password
Hosts:     %s; new points every %v
Log:       %s

Point a Grafana on this machine at it: data source InfluxDB, query language InfluxQL,
this URL and database; then import assets/dashboards/*.json. A Grafana elsewhere
reaches it through  ssh -L %s:%s THIS_MACHINE

Ctrl-C stops all of it and leaves nothing behind.
`, db.URL(), database, strings.Join(names, ", "), interval, log, db.Addr(), db.Addr())
}

// unlessEnded returns nil if ctx has ended, because the error then comes from the
// request to stop, and otherwise err.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // ending on request is no failure
	}
	return err
}

func logTail(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}
