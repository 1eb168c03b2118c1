package scrapes

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/serializers/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Output has the options of the shipped output.
type Output struct {
	format prometheus.FormatConfig
	expire time.Duration
}

// errOutput is wrapped when the shipped output is not one that this package emulates.
var errOutput = errors.New("not an output that is emulated here")

// ReadOutput reads the options of prometheus_client in the shipped configuration.
// An option that this package does not know is an error.
func ReadOutput(shipped string) (*Output, error) {
	var conf struct {
		Processors map[string]any
		Outputs    map[string][]struct {
			Listen             string
			MetricVersion      int      `toml:"metric_version"`
			ExpirationInterval string   `toml:"expiration_interval"`
			StringAsLabel      bool     `toml:"string_as_label"`
			CollectorsExclude  []string `toml:"collectors_exclude"`
			NamePass           []string
			MetricTypes        prometheus.MetricTypes `toml:"metric_types"`
		}
	}
	meta, err := toml.Decode(shipped, &conf)
	if err != nil {
		return nil, fmt.Errorf("read telegraf.conf: %w", err)
	}
	for _, key := range meta.Undecoded() {
		if key[0] == "outputs" {
			return nil, fmt.Errorf("telegraf.conf: option %s: %w", key, errOutput)
		}
	}
	all := conf.Outputs["prometheus_client"]
	if len(all) != 1 || all[0].MetricVersion != 2 {
		return nil, fmt.Errorf("telegraf.conf: want one prometheus_client of metric_version 2: %w", errOutput)
	}
	o := &Output{format: prometheus.FormatConfig{StringAsLabel: all[0].StringAsLabel, TypeMappings: all[0].MetricTypes, CompactEncoding: true}}
	if err := o.format.TypeMappings.Init(); err != nil {
		return nil, fmt.Errorf("telegraf.conf: %w", err)
	}
	if o.expire, err = time.ParseDuration(all[0].ExpirationInterval); err != nil {
		return nil, fmt.Errorf("telegraf.conf: expiration_interval: %w", err)
	}
	return o, nil
}

// Each calls scraped with what each scrape of a host finds, from the time begin on,
// every interval, until before end. metrics are all that the host's Telegraf has
// processed, in the order of their times, and may begin before begin.
func (o *Output) Each(metrics []telegraf.Metric, begin, end time.Time, interval time.Duration,
	scraped func(at time.Time, found []*dto.MetricFamily) error) error {
	shown := prometheus.NewCollection(o.format)
	for at := begin; at.Before(end); at = at.Add(interval) {
		for len(metrics) > 0 && !metrics[0].Time().After(at) {
			shown.Add(metrics[0], metrics[0].Time())
			metrics = metrics[1:]
		}
		shown.Expire(at, o.expire)
		if err := scraped(at, shown.GetProto()); err != nil {
			return err
		}
	}
	return nil
}

// Label adds the labels that a Prometheus adds to what it scrapes.
func Label(found []*dto.MetricFamily, job, instance string) {
	names := []string{"instance", "job"}
	values := []string{instance, job}
	for _, family := range found {
		for _, m := range family.GetMetric() {
			for i := range names {
				m.Label = append(m.Label, &dto.LabelPair{Name: &names[i], Value: &values[i]})
			}
		}
	}
}

// WriteOpenMetrics writes the families of a scrape with its time. The caller ends
// the file with End.
func WriteOpenMetrics(w io.Writer, at time.Time, found []*dto.MetricFamily) error {
	ms := at.UnixMilli()
	for _, family := range found {
		for _, m := range family.GetMetric() {
			m.TimestampMs = &ms
		}
		if _, err := expfmt.MetricFamilyToOpenMetrics(w, family); err != nil {
			return fmt.Errorf("write %s: %w", family.GetName(), err)
		}
	}
	return nil
}

// End ends a file in the format OpenMetrics.
func End(w io.Writer) error {
	_, err := expfmt.FinalizeOpenMetrics(w)
	return err
}
