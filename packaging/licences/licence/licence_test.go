package licence_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/packaging/licences/licence"
)

func TestALicenceIsNamedByWhatOnlyItSays(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"MIT", "Permission is hereby granted, free\nof charge, to any person", "MIT"},
		{"two clauses", "Redistributions in binary form must\nreproduce the above", "BSD-2-Clause"},
		{"three clauses", "Redistributions in binary form must reproduce\n* to endorse or\npromote products", "BSD-3-Clause"},
		{"Apache", "Apache License\n      Version 2.0, January 2004", "Apache-2.0"},
		{"two licences", "Mozilla Public License, version 2.0\nPermission is hereby granted, free of charge", "MPL-2.0 and MIT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := licence.Identify([]string{tt.text})
			require.NoError(t, err)
			require.Equal(t, tt.want, strings.Join(got, " and "))
		})
	}
	_, err := licence.Identify([]string{"All rights reserved."})
	require.ErrorContains(t, err, "not known")
}

func TestAModuleWithoutLicenceIsAnError(t *testing.T) {
	_, err := licence.Texts("example.org/x", t.TempDir())
	require.ErrorContains(t, err, "example.org/x has no licence file")
}
