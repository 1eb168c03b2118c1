package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/logger"

	"rdma_events/internal/agent/statusfile"
	"rdma_events/internal/sys/execd"
	"rdma_events/plugins/inputs/rdma_events"
)

// logDrainTime is the time that Telegraf has at the end to read the last log lines. Telegraf reads them at once or not
// at all. With a short shutdown_timeout, the time is a tenth of that timeout.
const logDrainTime = 300 * time.Millisecond

// streams contains the three standard descriptors as execd uses them, and the log.
type streams struct {
	in       *execd.Input
	out      *execd.Output
	err      *execd.Output
	writer   *execd.LogWriter
	written  chan struct{} // closed when the log writer has ended
	logDrain time.Duration // time limit of close
	log      telegraf.Logger
}

// openStreams takes over the descriptors and Telegraf's log, which exists once per process.
func openStreams(stdin, stdout, stderr *os.File) (*streams, error) {
	s := streams{logDrain: logDrainTime}
	var errs [3]error
	s.in, errs[0] = execd.NewInput(int(stdin.Fd()))
	s.out, errs[1] = execd.NewOutput(int(stdout.Fd()))
	s.err, errs[2] = execd.NewOutput(int(stderr.Fd()))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("open standard streams: %w", err)
	}
	s.writer = execd.NewLogWriter(s.err)
	s.written = make(chan struct{})
	go func() {
		defer close(s.written)
		_ = s.writer.Run() // it fails if nobody reads the log, so the error cannot be reported
	}()
	// This also prevents Telegraf's logger from storing every message for a sink
	// that is never set.
	logger.RedirectLogging(s.writer)
	s.log = logger.New("", "", "")
	return &s, nil
}

// close writes the pending log lines, for a limited time, and releases everything except the descriptors.
func (s *streams) close() {
	ctx, cancel := context.WithTimeout(context.Background(), s.logDrain)
	defer cancel()
	s.writer.Close()
	select {
	case <-s.written:
		s.err.Drain(ctx)
	case <-ctx.Done():
	}
	s.err.Interrupt()
	<-s.written
	for _, c := range []io.Closer{s.in, s.out, s.err} {
		_ = c.Close() // it closes only an eventfd
	}
}

// notifySignals returns a context that ends at SIGINT or SIGTERM, and a channel of the signals that request a
// gathering, which execd can be configured to send. Further SIGINT and SIGTERM are ignored, because the shutdown has a
// time limit anyway.
func notifySignals(ctx context.Context) (_ context.Context, prompts <-chan os.Signal, stop func()) {
	// A write to a pipe without a reader must return an error. SIGPIPE would end
	// the process and leave the workers unsupervised. It is not ignored, because
	// the workers would inherit that.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	poll := make(chan os.Signal, 1)
	signal.Notify(poll, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	return ctx, poll, sync.OnceFunc(func() {
		cancel()
		signal.Stop(poll)
		signal.Stop(pipe)
	})
}

// run runs the plugin until ctx is done, standard input ends, or standard output has no reader any more.
func (s *streams) run(ctx context.Context, o *pluginFlags, prompts <-chan os.Signal) error {
	p := rdma_events.New()
	if o.config == "" {
		s.log.Info("No config found. Loading default config for plugin rdma_events")
	}
	c, err := loadConfig(o.config)
	if err != nil {
		return err
	}
	p.Config, p.Log, p.Interrupt, p.Version = c, s.log, s.out.Interrupt, buildVersion()
	if p.StatusDir, err = statusfile.MakeDir(); err != nil {
		s.log.Infof("status file: disabled, `rdma-events status` and `health` do not show this plugin (docs/how-to/install.md), error %v", err)
	}
	if err := p.Init(); err != nil {
		return err
	}
	limit := time.Duration(c.ShutdownTimeout)
	s.logDrain = min(logDrainTime, limit/10)
	h := pluginHost{
		plugin: p, in: s.in, out: s.out, log: s.log, interval: o.pollInterval, signals: prompts, limit: limit - s.logDrain,
	}
	return h.run(ctx)
}
