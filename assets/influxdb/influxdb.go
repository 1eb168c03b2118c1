package influxdb

import (
	_ "embed" // for Downsampling
	"fmt"
	"regexp"
	"strings"
	"time"
)

//go:generate go run ./gen downsampling.influxql

// Downsampling is the InfluxQL of downsampling.influxql.
//
//go:embed downsampling.influxql
var Downsampling string

// Selects returns the SELECT ... INTO of each continuous query, for what lies
// between two moments: what the server runs at an interval, and what fills the
// past once.
func Selects(from, to time.Time) []string {
	body := regexp.MustCompile(`(?s) BEGIN\n(.*?)\nEND;`)
	span := fmt.Sprintf("WHERE time >= %d AND time < %d GROUP BY", from.UnixNano(), to.UnixNano())
	var all []string
	for _, m := range body.FindAllStringSubmatch(Downsampling, -1) {
		all = append(all, strings.Replace(m[1], "GROUP BY", span, 1))
	}
	return all
}
