package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/stretchr/testify/require"
)

func TestTheListOfLicencesIsUpToDate(t *testing.T) {
	t.Chdir("../..")
	require.NoError(t, run([]string{"-check", "docs/licences.md"}))
}

func TestALicenceIsNamedByWhatOnlyItSays(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"MIT", "Permission is hereby granted, free\nof charge, to any person", "MIT"},
		{"two clauses", "Redistributions in binary form must\nreproduce the above", "BSD-2-Clause"},
		{"three clauses", "Redistributions in binary form must reproduce\n* to endorse or\npromote products", "BSD-3-Clause"},
		{"Apache", "Apache License\n      Version 2.0, January 2004", "Apache-2.0"},
		{"two licences", "Mozilla Public License, version 2.0\nPermission is hereby granted, free of charge", "MPL-2.0 and MIT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := identify([]string{tt.text})
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	_, err := identify([]string{"All rights reserved."})
	require.ErrorContains(t, err, "not known")
}

func TestAModuleWithoutLicenceIsAnError(t *testing.T) {
	_, err := module{Path: "example.org/x", Dir: t.TempDir()}.licences()
	require.ErrorContains(t, err, "example.org/x has no licence file")
}

func TestOutdatedListIsAnErrorWithItsFix(t *testing.T) {
	t.Chdir("../..")
	old := filepath.Join(t.TempDir(), "licences.md")
	require.NoError(t, os.WriteFile(old, []byte("# Old\n"), 0o600))
	require.ErrorContains(t, run([]string{"-check", old}), "make generate")
}

// The program is this test, so the list has the modules of the tests, of which only those
// that the two programs share have known licences.
func TestProgramsOfAnotherCommitAreAnError(t *testing.T) {
	t.Chdir("../..")
	own, err := os.Executable()
	require.NoError(t, err)
	err = bill(new(bytes.Buffer), "0.1.0", time.Unix(0, 0), []string{own})
	require.ErrorContains(t, err, "the program is not of this commit")
}

func TestListNamesWhatAProgramIsLinkedFrom(t *testing.T) {
	t.Chdir("../..")
	program := filepath.Join(t.TempDir(), "rdma-events-worker")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/rdma-events-worker").CombinedOutput()
	require.NoError(t, err, string(out))
	list := filepath.Join(t.TempDir(), "list.json")
	t.Setenv("VERSION", "0.1.0")
	t.Setenv("SOURCE_DATE_EPOCH", "1798761600")
	require.NoError(t, run([]string{"-spdx", list, program}))
	first, err := os.ReadFile(list)
	require.NoError(t, err)
	doc, err := json.Read(bytes.NewReader(first))
	require.NoError(t, err)
	require.Equal(t, "2027-01-01T00:00:00Z", doc.CreationInfo.Created)
	licences := map[string]string{}
	for _, p := range doc.Packages {
		licences[p.PackageName] = p.PackageLicenseDeclared
		require.Regexp(t, `^[A-Za-z0-9.-]+$`, string(p.PackageSPDXIdentifier))
		require.NotEmpty(t, p.PackageVersion, p.PackageName)
	}
	require.Equal(t, "MIT", licences["rdma-events-worker-"+runtime.GOARCH])
	require.Equal(t, "BSD-3-Clause", licences[standardLibrary])
	require.Equal(t, "MPL-2.0", licences["github.com/hashicorp/go-plugin"])
	require.NotContains(t, licences, "github.com/influxdata/telegraf", "the worker is not linked with it")
	require.Len(t, doc.Relationships, len(doc.Packages), "one says what is described, the others what is linked")
	require.NoError(t, run([]string{"-spdx", list, program}))
	second, err := os.ReadFile(list)
	require.NoError(t, err)
	require.Equal(t, string(first), string(second))
	require.ErrorContains(t, run([]string{"-spdx", list, program, program}), "two programs")
	require.ErrorContains(t, run([]string{"-spdx", list}), "those of programs")
}
