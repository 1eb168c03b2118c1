package main

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdxlib"
	"github.com/stretchr/testify/require"
)

const when = "2026-01-02T15:04:05Z"

// writeDocument writes the SPDX document of this test program, and returns its path.
func writeDocument(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "out.spdx.json")
	require.NoError(t, run([]string{"-version", "v1.2.3", "-created", when, "-out", out, program}))
	return out
}

func readDocument(t *testing.T, path string) *spdx.Document {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	d, err := json.Read(f)
	require.NoError(t, err)
	require.NoError(t, spdxlib.ValidateDocument(d))
	return d
}

func TestDocumentListsWhatTheLinkerWroteIntoAProgram(t *testing.T) {
	d := readDocument(t, writeDocument(t))
	require.Equal(t, "rdma-events-1.2.3", d.DocumentName)
	require.Equal(t, when, d.CreationInfo.Created)
	linked, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	want := map[string]string{standardLibrary: strings.TrimPrefix(runtime.Version(), "go")}
	for _, m := range linked.Deps {
		want[m.Path] = m.Version
	}
	require.Contains(t, want, "github.com/spdx/tools-golang")

	program, libraries := d.Packages[0], map[string]string{}
	require.Equal(t, runtime.GOARCH, strings.TrimPrefix(program.PackageComment, "linux/"))
	require.Len(t, program.PackageChecksums[0].Value, 64)
	contained := map[spdx.ElementID]bool{}
	for _, r := range d.Relationships {
		if r.Relationship == common.TypeRelationshipContains {
			require.Equal(t, program.PackageSPDXIdentifier, r.RefA.ElementRefID)
			contained[r.RefB.ElementRefID] = true
		}
	}
	for _, p := range d.Packages[1:] {
		libraries[p.PackageName] = p.PackageVersion
		require.True(t, contained[p.PackageSPDXIdentifier], p.PackageName)
		require.NotEmpty(t, p.PackageLicenseDeclared, p.PackageName)
	}
	require.Equal(t, want, libraries)
}

func TestLicencesAreExpressionsOfSPDX(t *testing.T) {
	for _, p := range readDocument(t, writeDocument(t)).Packages {
		switch p.PackageName {
		case "github.com/anchore/go-struct-converter":
			require.Equal(t, "Apache-2.0", p.PackageLicenseDeclared)
		case standardLibrary:
			require.Equal(t, "BSD-3-Clause", p.PackageLicenseDeclared)
		}
		for _, word := range strings.Fields(p.PackageLicenseDeclared) {
			require.NotEqual(t, "and", word, "%s: an operator of SPDX has capital letters", p.PackageName)
		}
	}
}

func TestSameProgramsGiveTheSameBytes(t *testing.T) {
	one, err := os.ReadFile(writeDocument(t))
	require.NoError(t, err)
	another, err := os.ReadFile(writeDocument(t))
	require.NoError(t, err)
	require.Equal(t, string(one), string(another))
}

func TestProgramOfAnotherCheckoutIsAnError(t *testing.T) {
	_, err := licencesOf([]program{{name: "old", modules: []module{{path: "github.com/stretchr/testify", version: "v1.0.0"}}}})
	require.ErrorContains(t, err, "github.com/stretchr/testify@v1.0.0 is in a program and not in this checkout")
}

func TestPackageURLHasNoPlusSign(t *testing.T) {
	require.Equal(t, "pkg:golang/example.org/x@v2.0.0%2Bincompatible", module{path: "example.org/x", version: "v2.0.0+incompatible"}.purl())
}

func TestWrongArgumentsAreErrors(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("#!/bin/sh\n"), 0o600))
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"no program", "at least one program", []string{"-version", "v1", "-created", when, "-out", text}},
		{"no version", "want -version", []string{"-created", when, "-out", text, text}},
		{"no time", "read -created", []string{"-version", "v1", "-out", text, text}},
		{"not a program of Go", "inspect " + text, []string{"-version", "v1", "-created", when, "-out", text, text}},
	} {
		t.Run(tt.name, func(t *testing.T) { require.ErrorContains(t, run(tt.args), tt.want) })
	}
}
