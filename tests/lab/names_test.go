package lab

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The lab and make check select tests by name. A name that no test has any more would select nothing, without an error.
func TestChosenTestsExist(t *testing.T) {
	tests := declared(t)
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
				if !strings.Contains(tests, "\nfunc "+name) {
					t.Errorf("%s chooses %s: no test has a name that begins so", file, name)
				}
			}
		}
		if chosen < 3 {
			t.Errorf("%s: want names of tests, found %d", file, chosen)
		}
	}
}

// declared returns the declarations of the test files of the project, as text.
func declared(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "build"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	}))
	return all.String()
}
