package process

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/status"
)

func TestARuntimeDirectoryIsPrivateAndGoneAfterClose(t *testing.T) {
	base := shortDir(t)
	d, err := OpenDir(base)
	require.NoError(t, err)
	st, err := os.Stat(d.Path())
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, st.Mode())
	require.NoError(t, os.WriteFile(d.Path()+"/socket", nil, 0o600))
	require.NoError(t, d.Close())
	left, err := os.ReadDir(base)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestInstancesOnOneHostLeaveEachOtherAlone(t *testing.T) {
	base := shortDir(t)
	a, err := OpenDir(base)
	require.NoError(t, err)
	b, err := OpenDir(base)
	require.NoError(t, err)
	require.NotEqual(t, a.Path(), b.Path())
	require.DirExists(t, a.Path())
	require.NoError(t, a.Close())
	require.DirExists(t, b.Path())
	require.NoError(t, b.Close())
}

func TestOnlyDeadInstancesOfThisUserAreSweptAway(t *testing.T) {
	base := shortDir(t)
	leave := func(name string, mode os.FileMode) string {
		path := filepath.Join(base, name)
		require.NoError(t, os.Mkdir(path, mode))
		require.NoError(t, os.WriteFile(path+"/socket", nil, 0o600))
		return path
	}
	dead := leave(dirPrefix+"1", 0o700)
	others := leave("other", 0o700)
	open := leave(dirPrefix+"2", 0o755)
	foreign := leave(dirPrefix+"3", 0o700)
	require.NoError(t, os.Chown(foreign, 12345, 12345))
	link := filepath.Join(base, dirPrefix+"4")
	require.NoError(t, os.Symlink(others, link))

	d, err := OpenDir(base)
	require.NoError(t, err)
	defer d.Close()
	require.NoDirExists(t, dead)
	for _, path := range []string{others, open, foreign, link} {
		require.FileExists(t, path+"/socket")
	}
}

// systemd makes such a directory for Telegraf, and the administrator calls a command as root.
func TestADirectoryThatOnlyACapabilityOpensIsNotUsed(t *testing.T) {
	theirs, own := shortDir(t), shortDir(t)
	require.NoError(t, os.Chmod(theirs, 0o700))
	require.NoError(t, os.Chown(theirs, 12345, 12345))
	f, err := openDirInOneOf([]string{theirs, own})
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, own, filepath.Dir(f.Name()))
	_, err = OpenDir(theirs)
	require.ErrorContains(t, err, theirs+" is closed to user ")

	require.NoError(t, os.Chmod(theirs, 0o770))
	require.False(t, isOpenTo(theirs, 1, []int{2}))
	require.True(t, isOpenTo(theirs, 12345, []int{2}))
	require.True(t, isOpenTo(theirs, 1, []int{2, 12345}))
	require.NoError(t, os.Chmod(theirs, 0o577))
	require.False(t, isOpenTo(theirs, 12345, []int{2}), "the owner's bits count for the owner alone (path_resolution(7))")
	require.True(t, isOpenTo(theirs, 1, []int{2}))
}

// The kubelet gives an emptyDir the set-group-ID bit if the pod has an fsGroup.
func TestADeadInstanceIsSweptAwayWhereDirectoriesInheritTheirGroup(t *testing.T) {
	base := shortDir(t)
	require.NoError(t, os.Chmod(base, 0o777|os.ModeSetgid))
	dead, err := OpenDir(base)
	require.NoError(t, err)
	path := dead.Path()
	left, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|os.ModeSetgid|0o700, left.Mode(), "the kernel makes it so")
	require.NoError(t, dead.f.Close()) // as the kernel does when the process dies

	d, err := OpenDir(base)
	require.NoError(t, err)
	defer d.Close()
	require.NoDirExists(t, path)
}

func TestADirectoryThatIsSweptWhileItIsMadeIsNotUsed(t *testing.T) {
	path := filepath.Join(shortDir(t), "d")
	require.NoError(t, os.Mkdir(path, 0o700))
	sweeper, err := lockDir(path)
	require.NoError(t, err)
	late, err := os.Open(path)
	require.NoError(t, err)
	defer late.Close()
	require.ErrorIs(t, flockDir(late), unix.EWOULDBLOCK)
	require.NoError(t, os.Remove(path))
	require.NoError(t, sweeper.Close())
	require.ErrorIs(t, flockDir(late), os.ErrNotExist)
	_, err = lockDir(path)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTheBaseIsTheFirstThatCanBeUsed(t *testing.T) {
	own, user := shortDir(t), shortDir(t)
	t.Setenv("RUNTIME_DIRECTORY", own+":/run/another")
	t.Setenv("XDG_RUNTIME_DIR", user)
	d, err := OpenDir("")
	require.NoError(t, err)
	require.Equal(t, own, filepath.Dir(d.Path()))
	require.NoError(t, d.Close())
	all := makeBases()
	require.Equal(t, own, all[0])
	require.Equal(t, []string{user, os.TempDir()}, all[len(all)-2:])

	t.Setenv("RUNTIME_DIRECTORY", own+"/missing")
	d, err = OpenDir("")
	require.NoError(t, err)
	require.NotEqual(t, own, filepath.Dir(d.Path()))
	require.NoError(t, d.Close())
}

func TestRemovedDirectoryIsMadeAgainAndLocked(t *testing.T) {
	base := shortDir(t)
	d, err := OpenDir(base)
	require.NoError(t, err)
	before, again, err := d.Use()
	require.NoError(t, err)
	require.False(t, again)
	require.NoError(t, os.RemoveAll(before))

	var made atomic.Int32
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			if _, again, err := d.Use(); assert.NoError(t, err) && again {
				made.Add(1)
			}
		})
	}
	users.Wait()
	require.Equal(t, int32(1), made.Load(), "all use the same one")
	st, err := os.Stat(d.Path())
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, st.Mode())
	_, err = lockDir(d.Path())
	require.ErrorIs(t, err, unix.EWOULDBLOCK)
	require.NoError(t, d.Close())
	left, err := os.ReadDir(base)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestDirectoryOfAnotherInItsPlaceIsLeftAlone(t *testing.T) {
	d, err := OpenDir(shortDir(t))
	require.NoError(t, err)
	theirs := d.Path()
	require.NoError(t, os.Rename(theirs, theirs+"-away"))
	require.NoError(t, os.Mkdir(theirs, 0o755))
	path, again, err := d.Use()
	require.NoError(t, err)
	require.True(t, again)
	require.NotEqual(t, theirs, path)
	require.NoError(t, os.Rename(path, path+"-away"))
	require.NoError(t, os.Mkdir(path, 0o700))
	require.NoError(t, d.Close())
	require.DirExists(t, theirs)
	require.DirExists(t, path)
}

func TestDirectoryThatCannotBeMadeAgainIsNamed(t *testing.T) {
	base := shortDir(t) + "/base"
	require.NoError(t, os.Mkdir(base, 0o700))
	d, err := OpenDir(base)
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, os.RemoveAll(base))
	_, _, err = d.Use()
	require.ErrorIs(t, err, os.ErrNotExist)
	why := startFailure(new(testSpec()), err)
	require.Contains(t, why.Message, d.Path()+" was removed: make runtime directory: ")
	require.Contains(t, why.Message, "create directories there")
	require.NotContains(t, why.Message, "child_path")
	require.NotContains(t, why.Message, "\n")
}

func TestChildStartsAfterItsDirectoryWasRemoved(t *testing.T) {
	s := startSupervisor(t, "works", nil)
	first := s.awaitState(t, status.StateRunning)
	require.NoError(t, os.RemoveAll(s.dir.Path()))
	require.NoError(t, unix.Kill(first.PID, unix.SIGKILL))
	s.await(t, "another one runs, or none can", func() bool {
		n := s.statuses[len(s.statuses)-1]
		return n.State == status.StateRunning && n.PID != first.PID || len(s.ends) > 1
	})
	require.Equal(t, []status.End{{Reason: status.ReasonCrashed, Message: "child of mlx5_0 died of SIGKILL"}}, s.ends)
	require.Contains(t, s.logged(), "runtime directory was removed by another process")
}

func TestUnusableBasesAreReportedInOneLine(t *testing.T) {
	deep := "/" + strings.Repeat("x", socketPathMax)
	_, err := openDirInOneOf([]string{deep, deep + "y"})
	require.ErrorContains(t, err, deep+" is")
	require.ErrorContains(t, err, deep+"y is")
	require.NotContains(t, err.Error(), "\n")
}

func TestAPathThatIsTooLongForASocketIsRefused(t *testing.T) {
	fits := socketPathMax - 1 - socketSuffix - len("/"+dirPrefix+"4294967295")
	base := shortDir(t)
	base = filepath.Join(base, strings.Repeat("x", fits-len(base)-1))
	require.NoError(t, os.MkdirAll(base, 0o700))
	d, err := OpenDir(base)
	require.NoError(t, err)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	longest := filepath.Join(base, dirPrefix+"4294967295") // the longest possible name
	require.NoError(t, os.Symlink(d.Path(), longest))
	require.NoError(t, os.Mkdir(longest+"/plugin-dir4294967295", 0o700))
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: longest + "/plugin-dir4294967295/plugin4294967295"}))
	require.NoError(t, unix.Close(fd))
	require.NoError(t, d.Close())

	_, err = OpenDir(base + "y")
	require.ErrorContains(t, err, "is 1 bytes too long for sockets in it")
}
