package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/agent"
	"github.com/influxdata/telegraf/plugins/serializers/influx"

	"rdma_events/internal/sys/execd"
)

// host runs a service input as Telegraf's shim does, with guarantees that the
// shim does not give. Stop is always called and always returns, even if Telegraf
// does not read. The process waits, for a limited time, until Telegraf has read
// the output.
type host struct {
	plugin   telegraf.ServiceInput
	in       *execd.Input
	out      *execd.Output
	log      telegraf.Logger
	interval time.Duration // 0: gather only when prompted
	limit    time.Duration // for the plugin's Stop, and until the output is read
	signals  <-chan os.Signal
}

// run runs the plugin. It blocks until ctx is done or a standard stream has ended,
// and the plugin has stopped.
func (h *host) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines, err := newLineWriter(h.out, h.log, cancel)
	if err != nil {
		return err
	}
	acc := agent.NewAccumulator(lines, nil)
	acc.SetPrecision(time.Nanosecond)
	if err := h.plugin.Start(acc); err != nil {
		return err
	}
	prompts := make(chan struct{}, 1)
	var reader sync.WaitGroup
	reader.Go(func() { cancel(h.readPrompts(prompts)) })

	h.gather(ctx, acc, prompts)
	deadline, release := context.WithTimeout(context.Background(), h.limit)
	defer release()
	h.plugin.Stop()
	h.in.Interrupt()
	reader.Wait()
	h.drain(deadline)
	return ending(context.Cause(ctx))
}

// drain waits until Telegraf has read everything, has closed its end, or ctx is
// done.
func (h *host) drain(ctx context.Context) {
	if !h.out.Drain(ctx) {
		h.log.Warn("Stopping: Telegraf does not read standard output; what is in the pipe is lost")
	}
}

// ending returns nil for the ordinary reasons to end, and other causes as they are.
func ending(cause error) error {
	if errors.Is(cause, io.EOF) || errors.Is(cause, context.Canceled) {
		return nil
	}
	return cause
}

// gather calls Gather at each tick, line of input and signal, until ctx is done.
// Several lines of input that come during a Gather lead to one more Gather.
func (h *host) gather(ctx context.Context, acc telegraf.Accumulator, prompts <-chan struct{}) {
	var ticks <-chan time.Time
	if h.interval > 0 {
		t := time.NewTicker(h.interval)
		defer t.Stop()
		ticks = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-prompts:
		case <-h.signals:
		case <-ticks:
		}
		if ctx.Err() != nil {
			return // stopping has priority over gathering
		}
		if err := h.plugin.Gather(acc); err != nil {
			h.log.Errorf("Gathering: %v", err)
		}
	}
}

// readPrompts sends a prompt for each read that contains the end of a line. It
// blocks until a read fails and returns that error: io.EOF if Telegraf has closed
// its end.
func (h *host) readPrompts(prompts chan<- struct{}) error {
	buf := make([]byte, 512)
	for {
		n, err := h.in.Read(buf)
		if err != nil {
			return err
		}
		if !bytes.ContainsRune(buf[:n], '\n') {
			continue
		}
		select {
		case prompts <- struct{}{}:
		default:
		}
	}
}

// lineWriter writes metrics as line protocol. It is the metric maker of Telegraf's
// accumulator and passes no metric on to the accumulator's channel. So there is no
// channel that could be closed too early or block for ever.
type lineWriter struct {
	out  io.Writer
	log  telegraf.Logger
	fail func(error)

	mu         sync.Mutex
	serializer influx.Serializer
}

// newLineWriter returns a lineWriter that calls fail if a write to out fails.
func newLineWriter(out io.Writer, log telegraf.Logger, fail func(error)) (*lineWriter, error) {
	w := &lineWriter{out: out, log: log, fail: fail, serializer: influx.Serializer{SortFields: true}}
	if err := w.serializer.Init(); err != nil {
		return nil, fmt.Errorf("init serializer: %w", err)
	}
	return w, nil
}

// LogName implements agent.MetricMaker.
func (*lineWriter) LogName() string { return "rdma_events" }

// Log implements agent.MetricMaker.
func (w *lineWriter) Log() telegraf.Logger { return w.log }

// MakeMetric implements agent.MetricMaker. It writes m, blocks while Telegraf does
// not read, and returns nil.
func (w *lineWriter) MakeMetric(m telegraf.Metric) telegraf.Metric {
	w.mu.Lock()
	defer w.mu.Unlock()
	line, err := w.serializer.Serialize(m)
	if err != nil {
		w.log.Errorf("Serializing %s: %v", m.Name(), err)
		m.Reject()
		return nil
	}
	if _, err := w.out.Write(line); err != nil {
		if !errors.Is(err, execd.ErrInterrupted) {
			w.fail(fmt.Errorf("write metrics to standard output: %w", err))
		}
		m.Drop()
		return nil
	}
	m.Accept()
	return nil
}
