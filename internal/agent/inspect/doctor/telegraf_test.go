package doctor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArgumentsSayWhetherThePluginGathersByItself(t *testing.T) {
	for line, prompted := range map[string]bool{
		"-config f":                                false,
		"-poll_interval 10s -config f":             false,
		"--poll_interval_disabled=false -config=f": false,
		"-poll_interval_disabled -config f":        true,
		"-config f --poll_interval_disabled=true":  true,
		"-poll_interval=0s -config f":              true,
		"-config f -poll_interval 0":               true,
	} {
		got, config := parseArguments(strings.Fields(line))
		require.Equal(t, prompted, got, line)
		require.Equal(t, "f", config, line)
	}
}
