package main

import (
	"os"
	"path/filepath"
	"testing"

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
