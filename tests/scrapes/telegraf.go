package scrapes

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/parsers/influx"

	"rdma_events/tests/child"
)

// errEnded is wrapped when Telegraf ends before it has written everything.
var errEnded = errors.New("telegraf has ended")

const (
	// outputSection begins the part of the shipped file that the processor does not need.
	outputSection = "[[outputs.prometheus_client]]"
	// last is the line after a host's lines. The processor lets it pass, since its name is not rdma_*.
	last        = "end_of_host value=1i"
	stopTimeout = 20 * time.Second
)

// Telegraf is a running Telegraf with the shipped processor. It is for one
// goroutine.
type Telegraf struct {
	process *child.Process
	log     *os.File
	in      *os.File // a FIFO
	out     *os.File
	lines   *bufio.Reader
	parser  influx.Parser
}

// Start runs Telegraf, which must have the plugins that the shipped configuration
// names. dir is for its files. The caller must call Close.
func Start(program, shipped, dir string) (*Telegraf, error) {
	processor, _, ok := strings.Cut(shipped, outputSection)
	if !ok {
		return nil, fmt.Errorf("the shipped configuration has no %s", outputSection)
	}
	t := &Telegraf{}
	if err := t.parser.Init(); err != nil {
		return nil, fmt.Errorf("init parser: %w", err)
	}
	fifo, conf := filepath.Join(dir, "lines"), filepath.Join(dir, "telegraf.conf")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		return nil, fmt.Errorf("make %s: %w", fifo, err)
	}
	if err := os.WriteFile(conf, []byte(agentConfig(fifo)+processor), 0o600); err != nil {
		return nil, err
	}
	if err := t.run(program, conf, filepath.Join(dir, "telegraf.log")); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	var err error
	// Open for reading too, so that neither side waits for the other or sees an end.
	if t.in, err = os.OpenFile(fifo, os.O_RDWR, 0); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// agentConfig returns the configuration around the processor: Telegraf reads lines from
// the FIFO and writes all metrics to standard output.
func agentConfig(fifo string) string {
	return fmt.Sprintf(`[agent]
  interval = "1s"
  flush_interval = "100ms"
  flush_jitter = "0s"
  metric_batch_size = 10000
  metric_buffer_limit = 10000000
  omit_hostname = true
  skip_processors_after_aggregators = true
[[inputs.execd]]
  command = ["cat", %q]
  signal = "none"
  data_format = "influx"
[[outputs.file]]
  files = ["stdout"]
  data_format = "influx"
  influx_uint_support = false
`, fifo)
}

func (t *Telegraf) run(program, conf, log string) error {
	var err error
	if t.log, err = os.Create(log); err != nil {
		return err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	t.out, t.lines = out, bufio.NewReaderSize(out, 1<<20)
	cmd := exec.Command(program, "--config", conf)
	cmd.Stdout, cmd.Stderr = in, t.log
	t.process, err = child.Start(cmd)
	return err
}

// Shape has Telegraf process the lines of a host and returns the metrics in their
// order. It blocks until Telegraf has written all of them.
func (t *Telegraf) Shape(lines []byte) ([]telegraf.Metric, error) {
	wrote := make(chan error, 1)
	go func() {
		_, err := t.in.Write(append(lines[:len(lines):len(lines)], last+"\n"...))
		wrote <- err
	}()
	text, err := t.untilLast()
	if err != nil {
		return nil, errors.Join(err, t.in.Close(), <-wrote)
	}
	if err := <-wrote; err != nil {
		return nil, fmt.Errorf("write to Telegraf: %w", err)
	}
	metrics, err := t.parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse what Telegraf wrote: %w", err)
	}
	return metrics, nil
}

// untilLast reads up to the line that ends a host.
func (t *Telegraf) untilLast() ([]byte, error) {
	var text []byte
	for {
		line, err := t.lines.ReadSlice('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("%w: its log is %s", errEnded, t.log.Name())
			}
			return nil, fmt.Errorf("read from Telegraf: %w", err)
		}
		if strings.HasPrefix(string(line), last) {
			return text, nil
		}
		text = append(text, line...)
	}
}

// Close stops Telegraf. The error wraps child.ErrKilled if it had to be killed.
func (t *Telegraf) Close() error {
	var err error
	if t.in != nil { // first, since Telegraf waits some seconds for a process that goes on to read
		err = t.in.Close()
	}
	if t.process != nil {
		err = errors.Join(err, t.process.Stop(stopTimeout))
	}
	for _, f := range []*os.File{t.out, t.log} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
