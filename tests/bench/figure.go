package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
)

// Figure is one line of the result. Ours and Other have one value for each turn,
// in Unit. Bound is compared with the ratio of Ours to Other, or with Ours if
// there is no Other.
type Figure struct {
	Section, What string
	Unit          string
	Ours          []float64
	Other         []float64 `json:",omitempty"`
	OtherIs       string    `json:",omitempty"` // the program that Other was measured with
	BusyOurs      []float64 `json:",omitempty"` // like Ours, measured beside a program that keeps one core busy
	BusyOther     []float64 `json:",omitempty"` // like Other, beside that program
	Bound         float64   // 0: no target, for comparison only
	BusyBound     float64   `json:",omitempty"` // Bound beside that program; 0: the same
	AtLeast       bool      // Bound is a lower limit
	Within        bool      `json:",omitempty"` // it is enough that one turn reaches Bound
	Note          string    `json:",omitempty"` // remarks
	Missed        string    `json:",omitempty"` // why the target is missed, by a profile; printed only if it is missed
}

// Table is a comparison that has no numbers in some of its cells.
type Table struct {
	Section, Lead string
	Head          []string
	Rows          [][]string
}

// Report is everything that was measured, in the order measured.
type Report struct {
	Figures []Figure
	Tables  []Table
}

// Save writes the report to a file, for the other half of a bench run.
func (r *Report) Save(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// Load reads a report that Save wrote.
func Load(path string) (*Report, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("decode report %s: %w", path, err)
	}
	return &r, nil
}

// spread is the median of values, and the least and greatest of them.
type spread struct{ median, min, max float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return spread{(s[(n-1)/2] + s[n/2]) / 2, s[0], s[n-1]}
}

// judged returns the values that are compared with the bound: the ratios of the
// turns, or Ours if there is no Other.
func (f *Figure) judged() []float64 {
	if f.Other == nil {
		return f.Ours
	}
	var ratios []float64
	for i := range min(len(f.Ours), len(f.Other)) {
		if f.Other[i] != 0 {
			ratios = append(ratios, f.Ours[i]/f.Other[i])
		}
	}
	return ratios
}

// busy returns the figure that was measured beside a busy core.
func (f *Figure) busy() *Figure {
	b := *f
	b.Ours, b.Other, b.Bound = f.BusyOurs, f.BusyOther, cmp.Or(f.BusyBound, f.Bound)
	return &b
}

// miss returns how far the median is beyond the bound, in %.
func (f *Figure) miss() float64 {
	return 100 * math.Abs(spreadOf(f.judged()).median/f.Bound-1)
}

// Met reports whether the median is within the bound, or with Within the best turn. It is false if there is no value.
func (f *Figure) Met() bool {
	values := f.judged()
	if len(values) == 0 {
		return false
	}
	s := spreadOf(values)
	best := s.median
	if f.AtLeast {
		if f.Within {
			best = s.max
		}
		return best >= f.Bound
	}
	if f.Within {
		best = s.min
	}
	return best <= f.Bound
}
