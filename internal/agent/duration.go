package agent

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

// Duration is a duration in the configuration. It accepts the same text as Telegraf's own options: the format of
// time.ParseDuration, also with days as in "1d12h", or a number of seconds. An empty text is 0.
type Duration time.Duration

var daysPattern = regexp.MustCompile(`(\d+(?:\.\d+)?)d`)

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = 0
		return nil
	}
	if seconds, err := strconv.ParseFloat(string(text), 64); err == nil && !math.IsNaN(seconds) && !math.IsInf(seconds, 0) {
		*d = Duration(seconds * float64(time.Second))
		return nil
	}
	inHours := daysPattern.ReplaceAllFunc(text, func(part []byte) []byte {
		n, _ := strconv.ParseFloat(string(part[:len(part)-1]), 64) // the expression has matched a number
		return append(strconv.AppendFloat(nil, n*24, 'f', -1, 64), 'h')
	})
	parsed, err := time.ParseDuration(string(inHours))
	if err != nil {
		return fmt.Errorf("parse duration: %w", err)
	}
	*d = Duration(parsed)
	return nil
}
