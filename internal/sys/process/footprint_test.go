package process

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyMappingsThatAreAsTheFileIsAreForgotten(t *testing.T) {
	const smaps = `00400000-00401000 r--p 00000000 08:01 7    /usr/bin/worker (deleted)
Size:                  4 kB
Anonymous:             0 kB
00401000-00a00000 r-xp 00001000 08:01 7                   /usr/bin/worker
Rss:                5360 kB
Private_Clean:         0 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
00a00000-01000000 r--p 00600000 08:01 7                   /usr/bin/worker
Anonymous:             0 kB
01000000-01001000 r--p 00c00000 08:01 7                   /usr/bin/worker
Anonymous:             4 kB
01001000-01050000 rw-p 00c01000 08:01 7                   /usr/bin/worker
Anonymous:             0 kB
7f0000000000-7f0000100000 r-xp 00000000 08:01 8           /usr/lib/libc.so.6
Anonymous:             0 kB
7f0000200000-7f0000300000 rw-s 00000000 00:01 9           /memfd:ledger (deleted)
Anonymous:             0 kB
`
	require.Equal(t, []mapping{{0x401000, 0xa00000}, {0xa00000, 0x1000000}},
		slices.Collect(cleanMappings(strings.NewReader(smaps), "/usr/bin/worker")))
	require.Equal(t, []mapping{{0x400000, 0x401000}},
		slices.Collect(cleanMappings(strings.NewReader(smaps), "/usr/bin/worker (deleted)")))
}

func TestAProcessGoesOnAfterItHasForgottenItsStart(t *testing.T) {
	for range 2 { // all that the first one needs is there again
		smaps, err := os.Open(memoryMap)
		require.NoError(t, err)
		require.NoError(t, releaseStartMemory(smaps))
		require.NoError(t, smaps.Close())
	}
}
