package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The fields are those of https://in-toto.io/Statement/v1 and https://slsa.dev/provenance/v1.
func TestStatementNamesFilesCommitAndBuild(t *testing.T) {
	dir := t.TempDir()
	file, home, out := filepath.Join(dir, "a.deb"), filepath.Join(dir, "home"), filepath.Join(dir, "out")
	require.NoError(t, os.WriteFile(file, []byte("content"), 0o600))
	require.NoError(t, os.WriteFile(home, []byte("MODULE=m\nREPOSITORY=https://git.example.com/r\n"), 0o600))
	commit := "4f0c9d8b7a6e5f4d3c2b1a0f9e8d7c6b5a4f3e2d"
	args := []string{"-version", "v1.2.3", "-commit", commit, "-go", "go1.26.8", "-home", home, "-out", out, file}
	require.NoError(t, run(args))
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	sum := sha256.Sum256([]byte("content"))
	var got any
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"predicateType": "https://slsa.dev/provenance/v1",
		"subject":       []any{map[string]any{"name": "a.deb", "digest": map[string]any{"sha256": hex.EncodeToString(sum[:])}}},
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":          "https://git.example.com/r/release/v1",
				"externalParameters": map[string]any{"target": "make release", "version": "v1.2.3"},
				"internalParameters": map[string]any{"go": "go1.26.8"},
				"resolvedDependencies": []any{map[string]any{
					"uri": "git+https://git.example.com/r@refs/tags/v1.2.3", "digest": map[string]any{"gitCommit": commit},
				}},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": "https://git.example.com/r/release/builder"}},
		},
	}, got)
	require.NoError(t, run(args))
	again, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again), "the same release has the same bytes")
}

func TestReleaseThatCannotBeNamedIsRefused(t *testing.T) {
	dir := t.TempDir()
	file, home := filepath.Join(dir, "a.deb"), filepath.Join(dir, "home")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.WriteFile(home, []byte("MODULE=m\n"), 0o600))
	out := filepath.Join(dir, "out")
	require.ErrorIs(t, run([]string{"-version", "v1.2.3", "-commit", "c", "-home", home, "-out", out, file}), errNoRepository)
	require.NoError(t, os.WriteFile(home, []byte("REPOSITORY=https://git.example.com/r\n"), 0o600))
	require.ErrorIs(t, run([]string{"-version", "v1.2.3", "-commit", "c", "-home", home, "-out", out, file + "x"}), os.ErrNotExist)
	require.Error(t, run([]string{"-version", "v1.2.3", "-commit", "c", "-home", home, "-out", out}), "no file at all")
	require.NoFileExists(t, out)
}
