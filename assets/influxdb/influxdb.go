package influxdb

import (
	_ "embed" // for Downsampling
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Downsampling is the text of downsampling.influxql.
//
//go:embed downsampling.influxql
var Downsampling string

// Selects returns the SELECT ... INTO statement of each continuous query for the
// time from from up to to. The server runs these statements at each interval; a
// user can run them once for points from the past.
func Selects(from, to time.Time) []string {
	body := regexp.MustCompile(`(?s) BEGIN\n(.*?)\nEND;`)
	span := fmt.Sprintf("WHERE time >= %d AND time < %d GROUP BY", from.UnixNano(), to.UnixNano())
	var all []string
	for _, m := range body.FindAllStringSubmatch(Downsampling, -1) {
		all = append(all, strings.Replace(m[1], "GROUP BY", span, 1))
	}
	return all
}
