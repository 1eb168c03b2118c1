package timeline

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDurationsHaveThreeDigits(t *testing.T) {
	for ns, want := range map[int64]string{
		0: "0s", 999: "999ns", 45_123: "45.1µs", 40_123_456: "40.1ms", 999_960: "1ms", 2_550_000_000: "2.55s", 3_725_400_000_000: "1h2m5s",
	} {
		require.Equal(t, want, Duration(ns), ns)
	}
}
