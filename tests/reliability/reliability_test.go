package reliability

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the table of docs/reliability.md")

const document = "../../docs/reliability.md"

func TestTheTableInTheDocumentIsUpToDate(t *testing.T) {
	text, err := os.ReadFile(document)
	if !*update {
		require.NoError(t, err)
	}
	table, run := Divide(string(text))
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(Table()+run), 0o644))
		return
	}
	require.Equal(t, Table(), table, "to write it anew: go test ./tests/reliability -update")
}

func TestEveryFaultNamesATestThatIsThere(t *testing.T) {
	for _, s := range Faults() {
		for _, f := range s.Faults {
			require.NotEmpty(t, f.Happens, f.What)
			require.NotEmpty(t, f.Reported, f.What)
			require.True(t, declares(t, f.Package, f.Test), "%s: no %s in %s", f.What, f.Test, f.Package)
		}
	}
}

func declares(t *testing.T, pkg, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, pkg)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}

const runLog = `=== RUN   TestGuest
=== RUN   TestGuest/tests/lab/system
    guest| === RUN   TestStorm
    guest| === RUN   TestStorm/root
    guest|     reliability: events injected: 100
    guest|     reliability: events counted: 99
    guest| --- PASS: TestStorm (1.00s)
    guest| === RUN   TestKilled
    guest|     reliability: worst recovery after kill -9 of a worker: 1.2s
    guest|     reliability: peak memory: 12.3 MiB
=== RUN   TestGuest/tests/lab/system/TestStorm
=== RUN   TestGuest/tests/lab/system/TestOther
    skips_test.go:1: because
--- PASS: TestGuest (2.00s)
    --- PASS: TestGuest/tests/lab/system (2.00s)
        --- PASS: TestGuest/tests/lab/system/TestStorm (0.00s)
        --- SKIP: TestGuest/tests/lab/system/TestOther (0.00s)
=== RUN   TestEnds
    reliability: a million events, injected and counted: 1000000
    reliability: worst recovery after kill -9 of Telegraf: 900ms
    reliability: soak, growth of the plugin: memory +0.10 MiB to 9.00, threads +0 to 9
    reliability: soak, faults: 3 times this, 20 times that, 
--- PASS: TestEnds (1.00s)
reliability: fuzz tests, each for 1m: 9
`

func TestARunIsReadFromTheLog(t *testing.T) {
	run := Read(runLog)
	require.Equal(t, 4, run.Passed)
	require.Empty(t, run.Failed)
	require.Contains(t, run.Figures, Figure{"TestGuest/tests/lab/system/TestStorm", "events injected", "100"})
	require.Contains(t, run.Figures, Figure{"TestGuest/tests/lab/system/TestKilled", "peak memory", "12.3 MiB"})
	require.Contains(t, run.Figures, Figure{"TestEnds", "soak, faults", "3 times this, 20 times that"})
	require.Len(t, run.Figures, 9)

	section := RunSection(&run, "here")
	for _, line := range []string{
		"| events injected | 1000100 |",
		"| events counted | 1000099 |",
		"| worst recovery | 1.2s (worst recovery after kill -9 of a worker) |",
		"| faults that were tried, and survived | 23 |",
		"| growth over the soak | soak, growth of the plugin: memory +0.10 MiB to 9.00, threads +0 to 9 |",
		"| worst delay of an administrator's command | not measured in this run |",
		"| TestGuest/tests/lab/system/TestKilled | peak memory | 12.3 MiB |",
	} {
		require.Contains(t, section, line)
	}
	require.Contains(t, section, "scripts | fuzz tests, each for 1m | 9 |")
	table, last := Divide(Table() + section)
	require.Equal(t, Table(), table)
	require.Equal(t, section, last)
}

func TestAFailureIsFound(t *testing.T) {
	require.Equal(t, []string{"TestA/b"}, Read("=== RUN   TestA/b\n    --- FAIL: TestA/b (0.00s)\n").Failed)
}
