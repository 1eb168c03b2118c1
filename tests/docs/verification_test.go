package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// indexed lists the packages whose tests docs/explanation/verification.md must all name, in a row or in its list of tests without
// a fault.
var indexed = []string{"tests/e2e", "tests/native", "tests/lab/system", "tests/lab/fabric", "tests/lab/neighbours"}

func TestEachFaultNamesATestThatExists(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/explanation/verification.md"))
	require.NoError(t, err)
	table, rest, found := strings.Cut(string(text), "\n## Tests without a fault\n")
	require.True(t, found)
	named := map[string][]string{}
	table, _, found = strings.Cut(table, "\n## Simulated days\n")
	require.True(t, found)
	for _, row := range regexp.MustCompile(`(?m)^\| .* \|$`).FindAllString(table, -1) {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if cells[0] == "fault" {
			continue
		}
		require.Len(t, cells, 3, row)
		for _, one := range strings.Split(cells[2], "; ") {
			pkg, tests, found := strings.Cut(one, ": ")
			require.True(t, found, row)
			for test := range strings.SplitSeq(tests, ", ") {
				require.Contains(t, declaredTests(t, pkg), test, row)
				named[pkg] = append(named[pkg], test)
			}
		}
	}
	others := regexp.MustCompile(`Test\w+`).FindAllString(rest, -1)
	for _, pkg := range indexed {
		for _, test := range declaredTests(t, pkg) {
			if test != "TestMain" && strings.HasPrefix(test, "Test") && !slices.Contains(named[pkg], test) {
				require.Contains(t, others, test, "%s: a row of docs/explanation/verification.md, or the list at its end", pkg)
			}
		}
	}
}

// declaredTests returns the tests and fuzz tests of a package.
func declaredTests(t *testing.T, pkg string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, pkg)
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, found[1])
		}
	}
	return names
}
