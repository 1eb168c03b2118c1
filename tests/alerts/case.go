package alerts

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Case is a host with some series, one value a minute, and when an alert fires.
type Case struct {
	Alert  string // its id
	Name   string
	Series []Series
	Fires  []int // at these minutes there is exactly one such alert
	Quiet  []int // at these minutes there is none
}

// Series is a series of a measurement.
type Series struct {
	Measurement string
	Tags        string // as in device=mlx5_0,port=1
	// Fields are the values of each field by minute, in the notation of promtool: 0x20 is 0 and then 20 times 0, 0+1x9 counts from 0 to 9, _ is
	// a minute without the field. A field of words has the same notation: okx20 renamedx30.
	Fields map[string]string
}

// ErrNotation is wrapped by the error of values that are in no notation.
var ErrNotation = errors.New("is no values in the notation of promtool")

var (
	repeated = regexp.MustCompile(`^(\S+?)x(\d+)$`)
	counting = regexp.MustCompile(`^(-?[0-9.]+)([+-][0-9.]+)$`)
)

// parseNotation returns one value for each minute: a float64, a string, or nil for a minute without a value.
func parseNotation(notation string) ([]any, error) {
	var all []any
	for word := range strings.FieldsSeq(notation) {
		times := 0
		if m := repeated.FindStringSubmatch(word); m != nil {
			var err error
			if times, err = strconv.Atoi(m[2]); err != nil {
				return nil, fmt.Errorf("%q %w: %w", word, ErrNotation, err)
			}
			word = m[1]
		}
		step := 0.0
		if m := counting.FindStringSubmatch(word); m != nil {
			var err error
			if step, err = strconv.ParseFloat(m[2], 64); err != nil {
				return nil, fmt.Errorf("%q %w: %w", word, ErrNotation, err)
			}
			word = m[1]
		}
		for i := range times + 1 {
			number, err := strconv.ParseFloat(word, 64)
			switch {
			case word == "_":
				all = append(all, nil)
			case err != nil:
				all = append(all, word)
			default:
				all = append(all, number+float64(i)*step)
			}
		}
	}
	return all, nil
}

// tags returns the tags of a series.
func (s *Series) tags() map[string]string {
	all := map[string]string{}
	for tag := range strings.SplitSeq(s.Tags, ",") {
		if name, value, ok := strings.Cut(tag, "="); ok {
			all[name] = value
		}
	}
	return all
}

// minutes returns the fields of each minute.
func (s *Series) minutes() ([]map[string]any, error) {
	var all []map[string]any
	for name, notation := range s.Fields {
		column, err := parseNotation(notation)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", name, s.Measurement, err)
		}
		for i, v := range column {
			if i == len(all) {
				all = append(all, map[string]any{})
			}
			if v != nil {
				all[i][name] = v
			}
		}
	}
	return all, nil
}
