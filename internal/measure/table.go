package measure

import (
	"math"
	"slices"
	"strings"
	"time"
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

// Field describes one field of a measurement. A name that ends in "<number>" or
// has it inside stands for all names with a number in that place.
type Field struct {
	Name        string
	Kind        Kind
	Unit        string // "" for plain numbers and names
	Description string
	Optional    bool // left out where the value is not known
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

// Line is one line of line protocol to be.
type Line struct {
	Series string // measurement and tags, as a key
	Name   string
	Tags   map[string]string
	Fields map[string]any
	Time   time.Time
}

// tag and field are rows of the table with their accessor; V is the view that
// a measurement is made from. A tag "" and a field nil are left out.
type tag[V any] struct {
	Tag
	value func(*V) string
}

type field[V any] struct {
	Field
	value func(*V) any
}

// measurement is one table: what is emitted and what is documented.
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

// point makes a point of a view.
func (m *table[V]) point(v *V, t time.Time) Line {
	p := Line{
		Name:   m.Name,
		Tags:   make(map[string]string, len(m.tags)),
		Fields: make(map[string]any, len(m.fields)),
		Time:   t,
	}
	var series strings.Builder
	series.WriteString(m.Name)
	for _, row := range m.tags {
		value := clean(row.value(v))
		series.WriteByte(0) // no tag value has one, so keys are unique
		series.WriteString(value)
		if value != "" {
			p.Tags[row.Name] = value
		}
	}
	p.Series = series.String()
	m.fill(v, p.Fields)
	return p
}

func (m *table[V]) fill(v *V, fields map[string]any) {
	for _, row := range m.fields {
		if row.value == nil {
			continue
		}
		if value := row.value(v); value != nil {
			fields[row.Name] = value
		}
	}
	if m.more != nil {
		m.more(v, func(name string, value any) { fields[name] = value })
	}
}

func newTag[V any](name, description string, value func(*V) string) tag[V] {
	return tag[V]{Tag{Name: name, Description: description}, value}
}

// maybeTag is on some series only.
func maybeTag[V any](name, description string, value func(*V) string) tag[V] {
	return tag[V]{Tag{Name: name, Description: description, Optional: true}, value}
}

// counter is a cumulative count that is always there.
func counter[V any](name, description string, value func(*V) uint64) field[V] {
	return field[V]{
		Field{Name: name, Kind: Int, Description: description},
		func(v *V) any { return clip(value(v)) },
	}
}

// integer is a number that is always there.
func integer[V any](name, unit, description string, value func(*V) int64) field[V] {
	return field[V]{
		Field{Name: name, Kind: Int, Unit: unit, Description: description},
		func(v *V) any { return value(v) },
	}
}

// yesNo is 0 or 1.
func yesNo[V any](name, description string, value func(*V) bool) field[V] {
	return integer(name, "", description, func(v *V) int64 { return bit(value(v)) })
}

// maybe is a number that is left out where it is not known.
func maybe[V any](name, unit, description string, value func(*V) (int64, bool)) field[V] {
	return field[V]{
		Field{Name: name, Kind: Int, Unit: unit, Description: description, Optional: true},
		func(v *V) any {
			if n, ok := value(v); ok {
				return n
			}
			return nil
		},
	}
}

// float is a float that is left out where it is not known, or not a number.
func float[V any](name, unit, description string, value func(*V) (float64, bool)) field[V] {
	return field[V]{
		Field{Name: name, Kind: Float, Unit: unit, Description: description, Optional: true},
		func(v *V) any {
			x, ok := value(v)
			if !ok || math.IsNaN(x) || math.IsInf(x, 0) {
				return nil
			}
			return x
		},
	}
}

// text is a string that is left out where it is empty.
func text[V any](name, description string, value func(*V) string) field[V] {
	return field[V]{
		Field{Name: name, Kind: String, Description: description, Optional: true},
		func(v *V) any {
			if s := clean(value(v)); s != "" {
				return s
			}
			return nil
		},
	}
}

// clean makes a string from outside fit for a line of limited length: names and
// reasons come from drivers and from dying workers.
func clean(s string) string {
	const longest = 256
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "")
	}
	return s
}

// clip keeps a counter an int64, the only integer that line protocol has
// everywhere.
func clip(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
