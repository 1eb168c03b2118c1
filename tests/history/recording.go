package history

import (
	"fmt"
	"io"
	"time"

	"github.com/influxdata/telegraf/metric"
	"github.com/influxdata/telegraf/plugins/serializers/influx"
)

// Recording is an emit.Accumulator that writes line protocol, until the first error.
type Recording struct {
	to         io.Writer
	tags       map[string]string // added to every line, as Telegraf adds its host
	serializer influx.Serializer
	err        error
}

// NewRecording returns a Recording that adds tags to every line.
func NewRecording(to io.Writer, tags map[string]string) (*Recording, error) {
	r := &Recording{to: to, tags: tags, serializer: influx.Serializer{SortFields: true}}
	if err := r.serializer.Init(); err != nil {
		return nil, fmt.Errorf("init serializer: %w", err)
	}
	return r, nil
}

// AddFields implements emit.Accumulator.
func (r *Recording) AddFields(name string, fields map[string]any, tags map[string]string, t ...time.Time) {
	if r.err != nil {
		return
	}
	m := metric.New(name, tags, fields, t[0])
	for key, value := range r.tags {
		m.AddTag(key, value)
	}
	line, err := r.serializer.Serialize(m)
	if err == nil {
		_, err = r.to.Write(line)
	}
	if err != nil {
		r.err = fmt.Errorf("record %s: %w", name, err)
	}
}

// Err returns the first error, nil if there was none.
func (r *Recording) Err() error { return r.err }
