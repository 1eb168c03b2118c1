package identity

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// proc is a proc filesystem with files that a test writes.
type proc struct {
	t    *testing.T
	root string
}

func newProc(t *testing.T) *proc { return &proc{t: t, root: t.TempDir()} }

func (p *proc) write(pid int, name, text string) {
	p.t.Helper()
	dir := filepath.Join(p.root, strconv.Itoa(pid))
	require.NoError(p.t, os.MkdirAll(dir, 0o755))
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

func statText(pid int, comm string, start uint64) string {
	return strconv.Itoa(pid) + " (" + comm + ") S 1 1 1 0 -1 4194560 3142 0 5 0 12 4 0 0 20 0 3 0 " +
		strconv.FormatUint(start, 10) + " 1234 567 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0\n"
}

func (p *proc) process(pid int, comm string, start uint64, cgroup string) {
	p.write(pid, "status", "Name:\tx\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t"+strconv.Itoa(pid)+"\nNgid:\t0\n")
	p.write(pid, "stat", statText(pid, comm, start))
	p.write(pid, "cgroup", cgroup)
}

func TestAThreadIsItsProcess(t *testing.T) {
	p := newProc(t)
	p.process(4711, "python3", 987654, "0::/system.slice/train.service\n")
	p.write(4712, "status", "Name:\tworker\nTgid:\t4711\n")
	p.write(4712, "stat", statText(4712, "worker", 999999))

	want := Process{PID: 4711, Start: 987654, Comm: "python3", Unit: "train.service"}
	r := NewReader(p.root)
	for _, tid := range []int{4711, 4712} {
		got, ok := r.Process(tid)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
}

func TestAReusedPIDIsAnotherProcess(t *testing.T) {
	p := newProc(t)
	r := NewReader(p.root)
	p.process(7, "a", 100, "0::/\n")
	first, _ := r.Process(7)
	p.process(7, "a", 200, "0::/\n")
	second, _ := r.Process(7)
	require.NotEqual(t, first.ID(), second.ID())
}

func TestWhatCannotBeReadIsUnknown(t *testing.T) {
	p := newProc(t)
	r := NewReader(p.root)
	p.process(7, "a", 100, "0::/\n")
	require.NoError(t, os.Remove(filepath.Join(p.root, "7", "cgroup")))
	got, ok := r.Process(7)
	require.True(t, ok, "a cgroup that cannot be read takes only the unit")
	require.Equal(t, Process{PID: 7, Start: 100, Comm: "a"}, got)

	p.write(8, "status", "Tgid:\t9\n")
	p.write(10, "status", "Name:\tx\n")
	p.write(11, "status", "Tgid:\t11\n")
	p.write(11, "stat", "11 (x) S 1")
	p.write(12, "status", "Tgid:\t-3\n")
	for _, tid := range []int{0, -1, 6, 8, 10, 11, 12} {
		_, ok := r.Process(tid)
		require.False(t, ok, "%d", tid)
	}
	_, ok = NewReader(filepath.Join(p.root, "none")).Process(7)
	require.False(t, ok)
}

func TestNamesAreClean(t *testing.T) {
	for comm, want := range map[string]string{
		"python3": "python3", "a) S 1 (b": "a) S 1 (b", "x\ny\t": "x y", "\xff\xfe": "?", "": "unknown", " \\": "unknown",
		"other": "other", "end\\": "end", `"q"`: `"q"`, strings.Repeat("ä", 40): strings.Repeat("ä", 32),
		"x" + strings.Repeat("ä", 40): "x" + strings.Repeat("ä", 31),
	} {
		p := newProc(t)
		p.process(7, comm, 100, "")
		got, ok := NewReader(p.root).Process(7)
		require.True(t, ok, "%q", comm)
		require.Equal(t, want, got.Comm)
	}
}

func TestThisTestFindsItself(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not Linux: there is no /proc as it has")
	}
	got, ok := NewReader("/proc").Process(os.Getpid())
	require.True(t, ok)
	require.Equal(t, os.Getpid(), got.PID)
	require.NotZero(t, got.Start)
	require.NotEqual(t, "unknown", got.Comm)
}

func FuzzFilesOfAProcess(f *testing.F) {
	f.Add([]byte(statText(7, "a) b", 12)))
	f.Add([]byte("Name:\tx\nTgid:\t12\n"))
	f.Add([]byte("1 ()"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if pid, ok := parseTgid(text); ok {
			require.Positive(t, pid)
		}
		comm, _, _ := parseStat(text)
		clean := CleanComm(comm)
		require.True(t, utf8.ValidString(clean))
		require.NotEmpty(t, clean)
		require.LessOrEqual(t, len(clean), 64)
		require.NotContains(t, clean, "\n")
		require.Equal(t, clean, CleanComm(clean))
	})
}
