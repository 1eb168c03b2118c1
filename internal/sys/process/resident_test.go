package process

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResidentIsReadFromProc(t *testing.T) {
	require.Greater(t, Resident(os.Getpid()), uint64(1<<20))
	require.Zero(t, Resident(1<<30), "there is no such process")
}

func TestUsedIsReadFromProc(t *testing.T) {
	for began := time.Now(); Used(os.Getpid()) == 0; {
		require.Less(t, time.Since(began), time.Minute, "this process is busy, and a tick has 10 ms")
	}
	require.Zero(t, Used(1<<30), "there is no such process")
}
