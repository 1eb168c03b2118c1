package measure

import (
	"slices"
	"strings"
)

// Kind is the type of a field. The type of a field never changes.
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
	Emitted     string // when points are emitted, in words
	Description string
	Tags        []Tag
	Fields      []Field
}

// Tag describes one tag of a measurement.
type Tag struct {
	Name        string
	Description string
	Optional    bool // present only on some series
}

// Field describes one field of a measurement. A Name that contains "<number>" stands for
// all names with a number in this position.
type Field struct {
	Name        string
	Kind        Kind
	Unit        string // "" for plain numbers and names
	Description string
	Optional    bool // left out while the value is unknown
	Cumulative  bool // counts since the plugin, or the driver, started
}

// Field returns the description of the field with this name.
func (m *Metric) Field(name string) (Field, bool) {
	i := slices.IndexFunc(m.Fields, func(f Field) bool { return f.describes(name) })
	if i < 0 {
		return Field{}, false
	}
	return m.Fields[i], true
}

// describes reports whether name is a name of the field.
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

// Line is one line of line protocol. Its point provides the time.
type Line struct {
	Name   string
	Tags   map[string]string
	Fields map[string]any
}

// tag is a row of a table that describes a tag and computes its value from a V. The line
// does not include the tag if the value is "".
type tag[V any] struct {
	Tag
	value func(*V) string
}

// field is a row of a table that describes a field and computes its value from a V. The
// line does not include the field if the value is nil.
type field[V any] struct {
	Field
	value func(*V) any
}

// table describes one measurement. It is the source of its lines and of its documentation.
// V is the type from which it makes a line.
type table[V any] struct {
	Metric
	tags   []tag[V]
	fields []field[V]
	// more sets the fields whose names contain a number; it may be nil.
	more func(v *V, set func(name string, value any))
}

// describe returns the description of the measurement.
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

// line returns the line for v.
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
