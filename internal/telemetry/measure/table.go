package measure

import (
	"slices"
	"strings"
)

// Kind is the type of a field; it never changes.
type Kind string

// The kinds of field.
const (
	Int    Kind = "int64"
	Float  Kind = "float64"
	String Kind = "string"
)

// Metric describes one measurement.
type Metric struct {
	Name        string
	Emitted     string // when, in words
	Description string
	Tags        []Tag
	Fields      []Field
}

// Tag describes one tag of a measurement.
type Tag struct {
	Name        string
	Description string
	Optional    bool // not on every series
}

// Field describes one field of a measurement. A name with "<number>" in it stands for
// all names with a number in that place.
type Field struct {
	Name        string
	Kind        Kind
	Unit        string // "" for plain numbers and names
	Description string
	Optional    bool // left out where the value is unknown
	Cumulative  bool // counts since the plugin, or the driver, started
}

// Field returns the row that describes a field name.
func (m *Metric) Field(name string) (Field, bool) {
	i := slices.IndexFunc(m.Fields, func(f Field) bool { return f.describes(name) })
	if i < 0 {
		return Field{}, false
	}
	return m.Fields[i], true
}

func (f *Field) describes(name string) bool {
	before, after, pattern := strings.Cut(f.Name, "<number>")
	if !pattern {
		return f.Name == name
	}
	number, ok := strings.CutPrefix(name, before)
	number, ok2 := strings.CutSuffix(number, after)
	number = strings.TrimPrefix(number, "-")
	return ok && ok2 && number != "" && strings.Trim(number, "0123456789") == ""
}

// Line is one line of line protocol. Its time is that of its point.
type Line struct {
	Name   string
	Tags   map[string]string
	Fields map[string]any
}

// tag and field are rows of a table with their accessor; V is the type that a line is
// made from. A tag whose value is "" and a field whose value is nil are left out.
type tag[V any] struct {
	Tag
	value func(*V) string
}

type field[V any] struct {
	Field
	value func(*V) any
}

// table describes one measurement, for its lines and for its documentation.
type table[V any] struct {
	Metric
	tags   []tag[V]
	fields []field[V]
	// more adds the fields whose names contain a number.
	more func(v *V, set func(name string, value any))
}

// describe returns the table without its accessors.
func (m *table[V]) describe() Metric {
	d := m.Metric
	for _, t := range m.tags {
		d.Tags = append(d.Tags, t.Tag)
	}
	for _, f := range m.fields {
		d.Fields = append(d.Fields, f.Field)
	}
	return d
}

// line returns the line of v.
func (m *table[V]) line(v *V) Line {
	l := Line{
		Name:   m.Name,
		Tags:   make(map[string]string, len(m.tags)),
		Fields: make(map[string]any, len(m.fields)),
	}
	for _, row := range m.tags {
		if value := cleanText(row.value(v)); value != "" {
			l.Tags[row.Name] = value
		}
	}
	for _, row := range m.fields {
		if row.value == nil {
			continue
		}
		if value := row.value(v); value != nil {
			l.Fields[row.Name] = value
		}
	}
	if m.more != nil {
		m.more(v, func(name string, value any) { l.Fields[name] = value })
	}
	return l
}
