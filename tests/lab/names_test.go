package lab

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The lab and make check select tests by name. A name that no test has any more would select nothing, without an error.
func TestChosenTestsExist(t *testing.T) {
	for file, block := range map[string]string{
		"lab_test.go":    `(?s)const .*?\n\)|const \w+ = ".*"|"\^?\(?Test.*?"`,
		"../../Makefile": `-(?:run|skip) '.*'|\nSLOW := .*`,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		chosen := 0
		for _, found := range regexp.MustCompile(block).FindAllString(string(text), -1) {
			for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(found, -1) {
				chosen++
				if !isDeclared(t, name) {
					t.Errorf("%s chooses %s: no test has a name that begins so", file, name)
				}
			}
		}
		if chosen < 3 {
			t.Errorf("%s: want names of tests, found %d", file, chosen)
		}
	}
}

// isDeclared reports whether the name of a test begins with name, in the packages that the Makefile or this package selects tests
// from.
func isDeclared(t *testing.T, name string) bool {
	t.Helper()
	for _, dir := range []string{
		".", "system", "guest", "fabric", "pvrdma", "../e2e", "../../internal/device/native", "../../internal/device/hotplug",
		"../../internal/applications/ebpf", "../grafana", "../bench", "../../assets/prometheus", "../docs", "../hosts", "../twins",
	} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no tests: %v", dir, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "\nfunc "+name) {
				return true
			}
		}
	}
	return false
}
