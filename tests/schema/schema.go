// Package schema checks JSON against docs/schema/output.json.
package schema

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
)

// path is that of the schema, from the root of the module.
const path = "docs/schema/output.json"

// Require requires that a text is as a definition says.
func Require(t testing.TB, definition, text string) {
	t.Helper()
	f, err := os.Open(filepath.Join(rig.ModuleRoot(t), path))
	require.NoError(t, err)
	defer f.Close()
	all, err := jsonschema.UnmarshalJSON(f)
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("output.json", all))
	one, err := c.Compile("output.json#/$defs/" + definition)
	require.NoError(t, err)
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err, text)
	require.NoError(t, one.Validate(value), text)
}
