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

// pluginHost runs a service input as Telegraf's shim does, with additional guarantees. Stop is always called and always
// returns, even if Telegraf does not read. The process waits, for a limited time, until Telegraf has read the output.
type pluginHost struct {
	plugin   telegraf.ServiceInput
	in       *execd.Input
	out      *execd.Output
	log      telegraf.Logger
	interval time.Duration // 0: gather only when prompted
	limit    time.Duration // time limit for the plugin's Stop and until the output has been read
	signals  <-chan os.Signal
}

// run runs the plugin. It blocks until ctx is done or a standard stream has ended, and the plugin has stopped.
func (h *pluginHost) run(ctx context.Context) error {
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

	h.gatherOnPrompts(ctx, acc, prompts)
	deadline, release := context.WithTimeout(context.Background(), h.limit)
	defer release()
	h.plugin.Stop()
	h.in.Interrupt()
	reader.Wait()
	h.drainOutput(deadline)
	return ignoreNormalEnd(context.Cause(ctx))
}

// drainOutput waits until Telegraf has read everything or has closed its end, or ctx is done.
func (h *pluginHost) drainOutput(ctx context.Context) {
	if !h.out.Drain(ctx) {
		h.log.Warn("stop: Telegraf does not read standard output, so the output in the pipe is lost")
	}
}

// ignoreNormalEnd returns nil if cause is a normal reason to end, otherwise cause.
func ignoreNormalEnd(cause error) error {
	if errors.Is(cause, io.EOF) || errors.Is(cause, context.Canceled) {
		return nil
	}
	return cause
}

// gatherOnPrompts calls Gather at each tick, line of input and signal, until ctx is done. Several lines that arrive
// during a Gather cause only one more Gather.
func (h *pluginHost) gatherOnPrompts(ctx context.Context, acc telegraf.Accumulator, prompts <-chan struct{}) {
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
			h.log.Errorf("gather failed, error %v", err)
		}
	}
}

// readPrompts sends a prompt for each read that contains an end of a line. It blocks until a read fails, and returns
// that error, which is io.EOF if Telegraf has closed its end.
func (h *pluginHost) readPrompts(prompts chan<- struct{}) error {
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

// lineWriter writes metrics as line protocol. It implements the metric maker of Telegraf's accumulator and passes no
// metric on to the accumulator's channel. Therefore no channel can be closed too early or block for ever.
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
		w.log.Errorf("serialize metric failed, name %s, error %v", m.Name(), err)
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
