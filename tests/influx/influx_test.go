package influx_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/influx"
	"rdma_events/tests/rig"
)

func TestWrittenPointsAreReadBackExactly(t *testing.T) {
	s := influx.Start(t)
	require.NoError(t, s.CreateDatabase(t.Context(), "rdma"))
	lines := `rdma_async,host=a,device=mlx5_0 port_err=9223372036854775807i,port_err_rate=0.5,state_name="down" 1700000000000000001
rdma_async,host=b,device=mlx5_0 port_err=2i 1700000000000000002
`
	require.NoError(t, s.Write(t.Context(), "rdma", strings.NewReader(lines)))
	got, err := s.Query(t.Context(), "rdma", `SELECT port_err, port_err_rate, state_name FROM rdma_async WHERE host = 'a' GROUP BY device`)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, "rdma_async", got[0].Name)
	require.Equal(t, map[string]string{"device": "mlx5_0"}, got[0].Tags)
	require.Equal(t, "9223372036854775807", got[0].Column("port_err")[0].(interface{ String() string }).String())
	require.Equal(t, []any{"down"}, got[0].Column("state_name"))
	require.Nil(t, got[0].Column("nothing"))
	rates, times := got[0].Numbers("port_err_rate")
	require.Equal(t, []float64{0.5}, rates)
	require.Equal(t, time.Unix(0, 1700000000000000001), times[0])
}

func TestSeveralStatementsAnswerTogether(t *testing.T) {
	s := influx.Start(t)
	require.NoError(t, s.CreateDatabase(t.Context(), "rdma"))
	require.NoError(t, s.Write(t.Context(), "rdma", strings.NewReader("m x=1 1\nn x=2 1\n")))
	got, err := s.Query(t.Context(), "rdma", "SELECT x FROM m; SELECT x FROM n")
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.NoError(t, s.DropDatabase(t.Context(), "rdma"))
	_, err = s.Query(t.Context(), "rdma", "SELECT x FROM m")
	require.ErrorIs(t, err, influx.ErrRefused)
}

func TestARefusalIsAnErrorThatSaysWhy(t *testing.T) {
	s := influx.Start(t)
	require.NoError(t, s.CreateDatabase(t.Context(), "rdma"))
	_, err := s.Query(t.Context(), "rdma", "SELEKT 1")
	require.ErrorIs(t, err, influx.ErrRefused)
	require.ErrorContains(t, err, "SELEKT")
	require.NoError(t, s.Write(t.Context(), "rdma", strings.NewReader("m x=1i 1\n")))
	err = s.Write(t.Context(), "rdma", strings.NewReader("m x=\"text\" 2\n"))
	require.ErrorIs(t, err, influx.ErrRefused)
	require.ErrorContains(t, err, "field type conflict")
}

func TestAServerListensOnLoopbackOnlyAndEndsWithClose(t *testing.T) {
	s := influx.Start(t)
	host, _, err := net.SplitHostPort(s.Addr())
	require.NoError(t, err)
	require.True(t, net.ParseIP(host).IsLoopback(), host)
	require.True(t, rig.Running(s.PID()))
	require.NoError(t, s.Close())
	require.False(t, rig.Running(s.PID()))
	require.NoError(t, s.Close(), "a second time")
}

func TestDataSurvivesARestart(t *testing.T) {
	c := influx.Config{Program: rig.Program(t, "INFLUXD_BIN", "tools/influxd"), Dir: t.TempDir()}
	first, err := influx.Open(t.Context(), c)
	require.NoError(t, err)
	require.NoError(t, first.CreateDatabase(t.Context(), "rdma"))
	require.NoError(t, first.Write(t.Context(), "rdma", strings.NewReader("m x=1 1\n")))
	require.NoError(t, first.Close())
	second, err := influx.Open(t.Context(), c)
	require.NoError(t, err)
	defer func() { require.NoError(t, second.Close()) }()
	got, err := second.Query(t.Context(), "rdma", "SELECT x FROM m")
	require.NoError(t, err)
	require.Len(t, got, 1)
}

func TestATakenPortIsReportedWithTheLog(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c := influx.Config{Program: rig.Program(t, "INFLUXD_BIN", "tools/influxd"), Dir: t.TempDir(), Addr: l.Addr().String()}
	_, err = influx.Open(t.Context(), c)
	require.ErrorIs(t, err, influx.ErrExited)
	require.ErrorContains(t, err, "address already in use")
}

func TestAMissingProgramIsReported(t *testing.T) {
	_, err := influx.Open(context.Background(), influx.Config{Program: "/no/influxd", Dir: t.TempDir()})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAWriterWritesInBatchesAndTheRestAtLast(t *testing.T) {
	s := influx.Start(t)
	require.NoError(t, s.CreateDatabase(t.Context(), "rdma"))
	w := s.NewWriter(t.Context(), "rdma")
	const lines = 60_000
	for i := range lines {
		_, err := fmt.Fprintf(w, "rdma_port,host=a,device=mlx5_0 flaps=%di,up=1i %d\n", i, 1_700_000_000_000_000_000+i)
		require.NoError(t, err)
	}
	count := func() float64 {
		got, err := s.Query(t.Context(), "rdma", "SELECT count(flaps) FROM rdma_port")
		require.NoError(t, err)
		n, _ := got[0].Numbers("count")
		return n[0]
	}
	require.Greater(t, count(), 0.0)
	require.Less(t, count(), float64(lines))
	require.NoError(t, w.Flush())
	require.EqualValues(t, lines, count())
}
