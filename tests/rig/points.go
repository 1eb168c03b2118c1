package rig

import (
	"fmt"
	"maps"
	"slices"

	"github.com/influxdata/line-protocol/v2/lineprotocol"
)

// Point is one line of line protocol. Fields are int64, uint64, float64,
// string or bool.
type Point struct {
	Measurement string
	Tags        map[string]string
	Fields      map[string]any
	Time        int64 // unix ns
}

// Parse reads whole lines of line protocol.
func Parse(text []byte) ([]Point, error) {
	dec := lineprotocol.NewDecoderWithBytes(text)
	var points []Point
	for dec.Next() {
		p, err := nextPoint(dec)
		if err != nil {
			return points, fmt.Errorf("parse line %d: %w", len(points)+1, err)
		}
		points = append(points, p)
	}
	return points, nil
}

func nextPoint(dec *lineprotocol.Decoder) (Point, error) {
	p := Point{Tags: map[string]string{}, Fields: map[string]any{}}
	name, err := dec.Measurement()
	if err != nil {
		return p, err
	}
	p.Measurement = string(name)
	for {
		key, value, err := dec.NextTag()
		if err != nil {
			return p, err
		}
		if key == nil {
			break
		}
		p.Tags[string(key)] = string(value)
	}
	for {
		key, value, err := dec.NextField()
		if err != nil {
			return p, err
		}
		if key == nil {
			break
		}
		p.Fields[string(key)] = value.Interface()
	}
	at, err := dec.TimeBytes()
	if err != nil {
		return p, err
	}
	_, err = fmt.Sscan(string(at), &p.Time)
	return p, err
}

// Int returns an int64 field, or -1 if there is none of that name.
func (p Point) Int(field string) int64 {
	if v, ok := p.Fields[field].(int64); ok {
		return v
	}
	return -1
}

// Text returns a string field, or "" if there is none of that name.
func (p Point) Text(field string) string {
	v, _ := p.Fields[field].(string)
	return v
}

// Select returns the points of one measurement that have all of the tags,
// given as name, value, name, value; "" as value means that the tag is absent.
func Select(points []Point, measurement string, tags ...string) []Point {
	var found []Point
	for _, p := range points {
		if p.Measurement == measurement && p.has(tags) {
			found = append(found, p)
		}
	}
	return found
}

func (p Point) has(tags []string) bool {
	for pair := range slices.Chunk(tags, 2) {
		if p.Tags[pair[0]] != pair[1] {
			return false
		}
	}
	return true
}

// Last returns the last point that Select finds, or an empty Point if there is none.
func Last(points []Point, measurement string, tags ...string) Point {
	found := Select(points, measurement, tags...)
	if len(found) == 0 {
		return Point{}
	}
	return found[len(found)-1]
}

// Sum adds up an integer field.
func Sum(points []Point, field string) int64 {
	var sum int64
	for _, p := range points {
		sum += max(p.Int(field), 0)
	}
	return sum
}

// Series returns the key of the point's series.
func (p Point) Series() string {
	key := p.Measurement
	for _, name := range slices.Sorted(maps.Keys(p.Tags)) {
		key += "," + name + "=" + p.Tags[name]
	}
	return key
}
