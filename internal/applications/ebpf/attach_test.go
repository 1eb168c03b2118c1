package ebpf

import (
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/applications/trace"
)

// fakeHook is a fake attachment.
type fakeHook struct {
	program string
	closed  *[]string
	mu      *sync.Mutex
}

func (h fakeHook) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	*h.closed = append(*h.closed, h.program)
	return nil
}

// attachPrograms attaches to a kernel that has all functions of Linux 6.1 and refuses some programs.
func attachPrograms(t *testing.T, refuses map[string]error) (kept, closed, missing []string, err error) {
	t.Helper()
	f := fitted{functions: functionsOf(t), has: func(function string) bool { return function != "uverbs_async_event_free_event_queue" }}
	c, err := choosePrograms(f.functions, f.has)
	require.NoError(t, err)
	f.programs = c.programs
	var mu sync.Mutex
	links, missing, err := attachAll(f, func(program string) (io.Closer, error) {
		if err := refuses[program]; err != nil {
			return nil, err
		}
		return fakeHook{program, &closed, &mu}, nil
	})
	for _, l := range links {
		kept = append(kept, l.(fakeHook).program)
	}
	slices.Sort(kept)
	slices.Sort(closed)
	return kept, closed, missing, err
}

func TestFunctionThatCannotBeProbedSwitchesOffItsPartAlone(t *testing.T) {
	all, closed, missing, err := attachPrograms(t, nil)
	require.NoError(t, err)
	require.Empty(t, closed)
	require.Empty(t, missing)
	for name, c := range map[string]struct {
		refuses string
		off     []string // programs switched off in addition to the refused one
		missing string
	}{
		"a number":    {"wq_goes", nil, "uverbs_free_wq"},
		"hangs":       {"cq_gone", []string{"sights"}, "ib_uverbs_release_ucq"},
		"the threads": {"sights", []string{"cq_gone"}, "sights"},
		"events": {"cq_event", []string{
			"closed", "device_event", "qp_event", "read_begins", "read_ends", "removed_event", "srq_event", "wq_event",
		}, "ib_uverbs_cq_event_handler"},
	} {
		t.Run(name, func(t *testing.T) {
			kept, closed, missing, err := attachPrograms(t, map[string]error{c.refuses: unix.EINVAL})
			require.NoError(t, err)
			require.Equal(t, []string{c.missing}, missing)
			require.Equal(t, c.off, closed)
			require.Equal(t, slices.DeleteFunc(slices.Clone(all), func(p string) bool {
				return p == c.refuses || slices.Contains(c.off, p)
			}), kept)
		})
	}
}

func TestKernelThatLetsNothingBeProbedIsNotSupported(t *testing.T) {
	kept, closed, _, err := attachPrograms(t, map[string]error{"cq_event": unix.EINVAL, "object_gone": unix.EBUSY})
	require.ErrorIs(t, err, trace.ErrUnsupported)
	require.ErrorContains(t, err, "attach to ib_uverbs_cq_event_handler: invalid argument")
	require.Empty(t, kept)
	require.NotEmpty(t, closed)
}

func TestMissingPrivilegeOrMemoryIsNoMatterOfAFunction(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EPERM, unix.EACCES, unix.ENOMEM, unix.EMFILE} {
		_, _, _, err := attachPrograms(t, map[string]error{"read_begins": errno})
		require.ErrorIs(t, err, errno)
	}
}

// pairedHook blocks in Close until two hooks are being closed.
type pairedHook struct{ both *sync.WaitGroup }

func (h pairedHook) Close() error {
	h.both.Done()
	h.both.Wait()
	return unix.EIO
}

func TestHooksAreClosedAtTheSameTime(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	err := closeTogether([]io.Closer{pairedHook{&both}, pairedHook{&both}})
	require.True(t, errors.Is(err, unix.EIO))
}
