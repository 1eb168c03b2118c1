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

	"rdma_events/internal/execd"
	"rdma_events/plugins/inputs/rdma_events"
)

// lastWords is how long log lines may take at the end. Telegraf reads them at
// once, or not at all. Of a short shutdown_timeout it is the tenth part.
const lastWords = 300 * time.Millisecond

// streams are the three standard descriptors as execd uses them, and the log.
type streams struct {
	in      *execd.Input
	out     *execd.Output
	err     *execd.Output
	writer  *execd.LogWriter
	written chan struct{} // closed when the log writer has ended
	words   time.Duration // what close may take
	log     telegraf.Logger
}

// openStreams takes over the descriptors and Telegraf's log, which is one for
// the whole process.
func openStreams(stdin, stdout, stderr *os.File) (*streams, error) {
	s := streams{words: lastWords}
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
		_ = s.writer.Run() // without a reader there is nobody to tell
	}()
	// Also keeps Telegraf's logger from storing every message for a sink that
	// never comes.
	logger.RedirectLogging(s.writer)
	s.log = logger.New("", "", "")
	return &s, nil
}

// close writes what was logged, for a limited time, and frees everything but
// the descriptors.
func (s *streams) close() {
	ctx, cancel := context.WithTimeout(context.Background(), s.words)
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
		_ = c.Close() // an eventfd of our own
	}
}

// signals returns a context that SIGINT and SIGTERM end, and what else prompts
// a gathering: the signals that execd can be set to send. Later SIGINT and
// SIGTERM are ignored, because the end is limited in time anyway.
func signals(ctx context.Context) (_ context.Context, prompts <-chan os.Signal, stop func()) {
	// A write to a pipe without a reader is to be an error, not the end, which
	// would leave the workers to themselves. Ignoring it instead would be
	// inherited by them.
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

// run runs the plugin until ctx is done, standard input ends or nobody reads
// standard output any more.
func (s *streams) run(ctx context.Context, o *flags, prompts <-chan os.Signal) error {
	p := rdma_events.New()
	if o.config == "" {
		s.log.Info("No config found. Loading default config for plugin rdma_events")
	}
	c, err := loadConfig(o.config)
	if err != nil {
		return err
	}
	p.Config, p.Log, p.Interrupt = c, s.log, s.out.Interrupt
	if err := p.Init(); err != nil {
		return err
	}
	limit := time.Duration(c.ShutdownTimeout)
	s.words = min(lastWords, limit/10)
	h := host{
		plugin: p, in: s.in, out: s.out, log: s.log, interval: o.pollInterval, signals: prompts, limit: limit - s.words,
	}
	return h.run(ctx)
}
