package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheListOfLicencesIsUpToDate(t *testing.T) {
	t.Chdir("../..")
	require.NoError(t, run([]string{"-check", "docs/reference/licences.md"}))
}

func TestOutdatedListIsAnErrorWithItsFix(t *testing.T) {
	t.Chdir("../..")
	old := filepath.Join(t.TempDir(), "licences.md")
	require.NoError(t, os.WriteFile(old, []byte("# Old\n"), 0o600))
	require.ErrorContains(t, run([]string{"-check", old}), "make generate")
}
