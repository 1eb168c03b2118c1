package process

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestTheStateOfAThreadFollowsItsName(t *testing.T) {
	for text, want := range map[string]byte{
		"12 (rdma-ev-worker) D 1 12 12 0": 'D',
		"12 (a ) D (b) S 1 12 12 0":       'S',
		"12 (a) R":                        'R',
		"12 (a)":                          0,
		"":                                0,
	} {
		require.Equal(t, want, stateOf([]byte(text)), text)
	}
}

func TestAThreadThatRunsOrIsGoneIsInterruptible(t *testing.T) {
	require.False(t, uninterruptible(os.Getpid(), unix.Gettid()))
	require.False(t, uninterruptible(os.Getpid(), 1<<30))
	require.False(t, uninterruptible(1<<30, 1))
}

// Only a thread for which the contract asks may be left out.
func TestTheWatchdogLeavesAChildThatOnlyWaitsInTheKernel(t *testing.T) {
	held := true
	call := Call{Name: "ibv_query_port", Since: 1}
	w := watchdog{limit: 1000, stuck: 10 * time.Second, mono: func() int64 { return int64(time.Hour) }, busy: func() Call {
		if held {
			return Call{}
		}
		return call
	}}
	for range 10 {
		require.Equal(t, causeNone, w.check())
	}
	held = false
	require.Equal(t, causeNone, w.check(), "it has to be the same in two checks")
	require.Equal(t, causeStuck, w.check())
}
