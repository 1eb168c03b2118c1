package scale

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"rdma_events/tests/history"
	"rdma_events/tests/prom"
	"rdma_events/tests/scrapes"
)

const (
	// scrape is the interval of the shipped prometheus.yml, and offset when in a minute the scrapes begin.
	scrape = 15 * time.Second
	offset = 7 * time.Second
	// originals is how many hosts are simulated. The others are copies of them with other names.
	originals = 20
	// remembered is how far back rules read what others recorded.
	remembered = 7 * 24 * time.Hour
	recording  = 5 * time.Minute
	day        = 24 * time.Hour
)

// prometheus is the Prometheus of a run.
type prometheus struct {
	plan   Plan
	end    time.Time // of the hour
	root   string
	dir    string
	server prom.Config
	tool   prom.Promtool
	say    func(string, ...any)
}

// filled is kept in the directory of a Prometheus that is full.
type filled struct {
	Plan Plan
	End  time.Time
}

// runPrometheus fills a Prometheus unless it is full, and measures.
func (c *Config) runPrometheus(ctx context.Context, say func(string, ...any)) error {
	p := &prometheus{plan: c.Plan, root: c.Root, dir: filepath.Join(c.Plan.Dir, "prometheus"), end: c.Now().Truncate(time.Hour), say: say}
	p.server = prom.Config{Program: filepath.Join(c.Root, "build/tools/prometheus"), Dir: p.dir}
	p.tool = prom.Promtool(filepath.Join(c.Root, "build/tools/promtool"))
	full, err := p.load()
	if err != nil {
		return err
	}
	if !full {
		if err := p.fill(ctx); err != nil {
			return err
		}
	}
	return p.measure(ctx)
}

func (p *prometheus) file() string { return filepath.Join(p.dir, "filled.json") }

// load reports whether the Prometheus is full, and reads when its hour ended.
func (p *prometheus) load() (full bool, err error) {
	text, err := os.ReadFile(p.file())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	var f filled
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", p.file(), err)
	}
	if f.Plan != p.plan {
		return false, fmt.Errorf("%s was filled with %+v: give the same, or remove it", p.dir, f.Plan)
	}
	p.end = f.End
	return true, nil
}

// fill makes the blocks of a raw hour, and of what rules recorded in seven days.
func (p *prometheus) fill(ctx context.Context) error {
	if err := os.RemoveAll(p.dir); err != nil { // of a run that was stopped
		return err
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	began := time.Now()
	if err := p.blocks(ctx, 0, func(w *bufio.Writer) error { return p.writeHour(ctx, w) }); err != nil {
		return fmt.Errorf("fill the hour: %w", err)
	}
	p.say("Prometheus, raw hour: %.0f s\n", time.Since(began).Seconds())
	began = time.Now()
	if err := p.record(ctx); err != nil {
		return fmt.Errorf("fill what rules record: %w", err)
	}
	p.say("Prometheus, seven days of recorded series: %.0f s\n", time.Since(began).Seconds())
	text, err := json.Marshal(filled{p.plan, p.end})
	if err != nil {
		return err
	}
	return os.WriteFile(p.file(), text, 0o600)
}

// blocks has promtool make blocks of what write writes.
func (p *prometheus) blocks(ctx context.Context, span time.Duration, write func(*bufio.Writer) error) (err error) {
	name := filepath.Join(p.dir, "samples")
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(name)) }()
	w := bufio.NewWriterSize(f, 1<<20)
	err = write(w)
	if err == nil {
		err = scrapes.End(w)
	}
	if err == nil {
		err = w.Flush()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return p.tool.Blocks(ctx, name, p.dir, span)
}

// rackName returns the rack of a host; twenty hosts share one. All names of hosts have the same length, and so have all names
// of racks, so that a copy differs only in the names.
func rackName(host int) string { return fmt.Sprintf("rack%02d", host/originals%100) }

func hostName(host int) string { return fmt.Sprintf("node%04d", host+1) }

// writeHour writes the scrapes of all hosts.
func (p *prometheus) writeHour(ctx context.Context, w *bufio.Writer) (err error) {
	shipped, err := os.ReadFile(filepath.Join(p.root, "assets/prometheus/telegraf.conf"))
	if err != nil {
		return err
	}
	output, err := scrapes.ReadOutput(string(shipped))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "scale-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	telegraf, err := scrapes.Start(filepath.Join(p.root, "build/tools/telegraf-large"), string(shipped), dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, telegraf.Close()) }()
	hosts := history.Fleet{Hosts: min(originals, p.plan.Hosts), Devices: p.plan.Devices, Span: time.Hour, Seed: p.plan.Seed}.All()
	for i, h := range hosts {
		text, err := p.original(ctx, telegraf, output, h, i)
		if err != nil {
			return err
		}
		for host := i; host < p.plan.Hosts; host += originals {
			copied := bytes.ReplaceAll(text, []byte(hostName(i)), []byte(hostName(host)))
			if _, err := w.Write(bytes.ReplaceAll(copied, []byte(rackName(i)), []byte(rackName(host)))); err != nil {
				return err
			}
		}
	}
	return nil
}

// original returns the scrapes of a host in the format OpenMetrics.
func (p *prometheus) original(ctx context.Context, telegraf *scrapes.Telegraf, output *scrapes.Output, h history.Host, i int) ([]byte, error) {
	h.Tags = map[string]string{"site": "north", "rack": rackName(i)}
	begin := p.end.Add(-time.Hour)
	c := history.Config{Start: begin, End: p.end, Interval: p.plan.Interval, Hosts: []history.Host{h}}
	var lines, text bytes.Buffer
	if err := c.Write(ctx, &lines); err != nil {
		return nil, err
	}
	metrics, err := telegraf.Shape(lines.Bytes())
	if err != nil {
		return nil, err
	}
	err = output.Each(metrics, begin.Add(offset), p.end, scrape, func(at time.Time, found []*dto.MetricFamily) error {
		scrapes.Label(found, "rdma", h.Name+":9273")
		return scrapes.WriteOpenMetrics(&text, at, found)
	})
	return text.Bytes(), err
}

// record adds what the recording rules would have recorded in the hour, and the same series for the days before it.
func (p *prometheus) record(ctx context.Context) error {
	begin := p.end.Add(-time.Hour)
	if err := p.recordFrom(ctx, begin); err != nil {
		return err
	}
	if err := p.repeat(ctx, begin); err != nil {
		return err
	}
	// promtool reads only what is stored, so that rules that read what others record find it now.
	return p.recordFrom(ctx, p.end.Add(-2*recording))
}

// recordFrom evaluates the recording rules up to the end of the hour.
func (p *prometheus) recordFrom(ctx context.Context, from time.Time) error {
	s, err := prom.Open(ctx, p.server)
	if err != nil {
		return err
	}
	err = p.tool.Record(ctx, s, filepath.Join(p.root, "assets/prometheus/rules.yml"), p.dir, from, p.end)
	return errors.Join(err, s.Close())
}

// repeat writes what was recorded in the hour for the days before it.
func (p *prometheus) repeat(ctx context.Context, begin time.Time) error {
	s, err := prom.Open(ctx, p.server)
	if err != nil {
		return err
	}
	series, err := s.Query(ctx, `last_over_time({__name__=~"rdma:.+"}[1h])`, p.end)
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	heads := make([]string, len(series))
	values := make([]float64, len(series))
	for i, one := range series {
		// OpenMetrics has no space between labels.
		heads[i], values[i] = strings.ReplaceAll(one.Metric.String(), `", `, `",`), float64(one.Value)
	}
	for from := begin.Add(-remembered).Truncate(day); from.Before(begin); from = from.Add(day) {
		err := p.blocks(ctx, day, func(w *bufio.Writer) error { return writeRecorded(w, heads, values, from, begin) })
		if err != nil {
			return err
		}
	}
	return nil
}

// writeRecorded writes a day of series at the interval of their rules, up to before end. Each second value is a little
// less, since one that never changes takes no room.
func writeRecorded(w *bufio.Writer, heads []string, values []float64, from, end time.Time) error {
	for i, head := range heads {
		for n := range int(day / recording) {
			at := from.Add(time.Duration(n) * recording)
			if !at.Before(end) {
				break
			}
			value := values[i]
			if value != 1 {
				value *= 1 - float64(n%7)/100
			}
			line := append(append([]byte(head), ' '), strconv.FormatFloat(value, 'g', 6, 64)...)
			line = append(strconv.AppendInt(append(line, ' '), at.Unix(), 10), '\n')
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
	}
	return nil
}
