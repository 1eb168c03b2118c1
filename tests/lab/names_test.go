package lab

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The lab and make check select tests by name. A name that no test has any more would select nothing, without an error.
func TestChosenTestsExist(t *testing.T) {
	for file, block := range map[string]string{
		"lab_test.go":    `(?s)const .*?\n\)|const \w+ = ".*"|"\^?\(?Test.*?"`,
		"../../Makefile": `-(?:run|skip) '.*'|\nSLOW := .*`,
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		chosen := 0
		for _, found := range regexp.MustCompile(block).FindAllString(string(text), -1) {
			for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(found, -1) {
				chosen++
				if !isDeclared(t, chosenFrom, name) {
					t.Errorf("%s chooses %s: no test has a name that begins so", file, name)
				}
			}
		}
		if chosen < 3 {
			t.Errorf("%s: want names of tests, found %d", file, chosen)
		}
	}
}

// chosenFrom are the packages that the Makefile or this package selects tests from.
var chosenFrom = []string{
	".", "system", "guest", "fabric", "pvrdma", "../e2e", "../../internal/device/native", "../../internal/device/hotplug",
	"../../internal/applications/ebpf", "../grafana", "../bench", "../../assets/prometheus", "../docs", "../hosts", "../preview", "../twins",
}

// make test leaves out the slow tests of all packages, and make test-slow runs them in the packages that it names.
func TestSlowTestsAreInThePackagesOfTheirTarget(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	slow := regexp.MustCompile(`\nSLOW := (.*)`).FindSubmatch(text)
	packages := regexp.MustCompile(`-run '\$\(SLOW\)' (.*)`).FindSubmatch(text)
	require.NotNil(t, slow)
	require.NotNil(t, packages)
	dirs := strings.Fields(string(packages[1]))
	for i, dir := range dirs {
		dirs[i] = filepath.Join("../..", dir)
	}
	names := regexp.MustCompile(`Test\w+`).FindAllString(string(slow[1]), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		require.True(t, isDeclared(t, dirs, name+"("), "%s is in none of %v", name, dirs)
	}
}

// isDeclared reports whether the name of a test begins with name, in packages.
func isDeclared(t *testing.T, dirs []string, name string) bool {
	t.Helper()
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, "%s has no tests", dir)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			if strings.Contains(string(text), "\nfunc "+name) {
				return true
			}
		}
	}
	return false
}
