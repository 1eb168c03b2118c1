package stack_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
	"rdma_events/tests/stack"
)

// patience is how long a test waits for an effect: a loaded machine may be slow.
const patience = 2 * time.Minute

// running is a stack that runs as with `make stack`.
type running struct {
	*testing.T
	cmd  *exec.Cmd
	out  *bufio.Reader
	err  string // the file of standard error
	url  string
	tmp  string
	done chan error
}

func startStack(t *testing.T) *running {
	t.Helper()
	program := filepath.Join(t.TempDir(), "stack")
	built, err := exec.Command("go", "build", "-o", program, "./cmd/stack").CombinedOutput()
	require.NoError(t, err, string(built))
	r := &running{T: t, tmp: t.TempDir(), done: make(chan error, 1)}
	build := filepath.Dir(rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"))
	r.cmd = exec.Command(program, "-programs", build)
	r.cmd.Env = append(os.Environ(), "TMPDIR="+r.tmp)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	r.err = filepath.Join(t.TempDir(), "stderr")
	stderr, err := os.Create(r.err)
	require.NoError(t, err)
	defer stderr.Close()
	r.cmd.Stderr = stderr
	out, w := io.Pipe()
	r.cmd.Stdout = w
	r.out = bufio.NewReader(out)
	require.NoError(t, r.cmd.Start())
	go func() {
		err := r.cmd.Wait()
		w.CloseWithError(io.EOF)
		r.done <- err
	}()
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	r.readURL()
	go func() { _, _ = io.Copy(io.Discard, r.out) }()
	return r
}

func (r *running) readURL() {
	r.Helper()
	at := regexp.MustCompile(`^InfluxDB: +(http://127\.0\.0\.1:\d+) `)
	for r.url == "" {
		line, err := r.out.ReadString('\n')
		require.NoError(r, err, r.stderr())
		if m := at.FindStringSubmatch(line); m != nil {
			r.url = m[1]
		}
	}
}

func (r *running) stderr() string {
	text, err := os.ReadFile(r.err)
	require.NoError(r, err)
	return string(text)
}

// number queries the database over HTTP, as Grafana would.
func (r *running) number(influxQL string) float64 {
	r.Helper()
	resp, err := http.Get(r.url + "/query?db=rdma&epoch=ms&q=" + url.QueryEscape(influxQL)) //nolint:noctx // the client's time is the test's
	require.NoError(r, err)
	defer resp.Body.Close()
	var answer struct {
		Results []struct {
			Series []struct{ Values [][]float64 }
		}
	}
	require.NoError(r, json.NewDecoder(resp.Body).Decode(&answer))
	if len(answer.Results) == 0 || len(answer.Results[0].Series) == 0 {
		return 0
	}
	return answer.Results[0].Series[0].Values[0][1]
}

func (r *running) await(what string, cond func() bool) {
	r.Helper()
	deadline := time.After(patience)
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	for !cond() {
		select {
		case <-deadline:
			require.FailNow(r, "not in time", what)
		case <-poll.C:
		}
	}
}

// family returns all processes below the stack.
func (r *running) family() []int {
	r.Helper()
	all := []int{r.cmd.Process.Pid}
	for i := 0; i < len(all); i++ {
		all = append(all, rig.Children(r, all[i])...)
	}
	return all[1:]
}

func (r *running) awaitEnd() error {
	r.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		require.FailNow(r, "the stack does not end", r.stderr())
		return nil
	}
}

func TestCtrlCStopsAllOfItAndLeavesNothingBehind(t *testing.T) {
	r := startStack(t)
	began := time.Now()
	past := r.number(`SELECT count(up) FROM rdma_port WHERE host = 'mixed' AND device = 'sim0' AND time < ` + timeLiteral(began.Add(-time.Minute)))
	require.Greater(t, past, 700.0, "an hour of five seconds has 720 intervals")
	for _, host := range []string{"mixed", "calm-ib", "calm-dual"} {
		r.await("points of now of "+host, func() bool {
			return r.number(`SELECT count(rounds) FROM rdma_cq_probe WHERE host = '`+host+`' AND time > `+timeLiteral(began)) > 0
		})
	}
	family := r.family()
	require.GreaterOrEqual(t, len(family), 1+1+3+2, "InfluxDB, Telegraf, three plugins, workers")

	require.NoError(t, syscall.Kill(-r.cmd.Process.Pid, syscall.SIGINT), "as a terminal does")
	require.NoError(t, r.awaitEnd(), r.stderr())
	for _, pid := range family {
		r.await("the end of every process", func() bool { return !rig.Running(pid) })
	}
	left, err := os.ReadDir(r.tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestProcessesOfAKilledStackEnd(t *testing.T) {
	r := startStack(t)
	family := r.family()
	require.NoError(t, r.cmd.Process.Kill())
	require.Error(t, r.awaitEnd())
	for _, pid := range family {
		r.await("the end of every process", func() bool { return !rig.Running(pid) })
	}
}

func timeLiteral(t time.Time) string { return "'" + t.UTC().Format(time.RFC3339Nano) + "'" }

func TestOnlyLoopbackIsServed(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:8086", ":8086", "192.0.2.1:8086", "8086"} {
		err := stack.Run(t.Context(), stack.Config{Programs: "/nowhere", Addr: addr, Out: io.Discard, Now: time.Now})
		require.ErrorContains(t, err, "want a port of a loopback address", addr)
	}
}

func TestAMissingProgramIsNamed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	err := stack.Run(context.Background(), stack.Config{Programs: "/nowhere", Out: io.Discard, Now: time.Now})
	require.ErrorContains(t, err, "influxd")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
