package process

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResidentIsReadFromProc(t *testing.T) {
	require.Greater(t, Resident(os.Getpid()), uint64(1<<20))
	require.Zero(t, Resident(1<<30), "there is no such process")
}
