package timeline

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachKindHasOneRowWithWords(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range slices.Concat(deviceKinds(), fabricKinds(), appKinds(), pluginKinds()) {
		require.False(t, seen[k.name], k.name)
		seen[k.name] = true
		require.NotNil(t, k.words, k.name)
	}
}

// Records that only a recorder stores, or only the commands fabric and events show, are not in the schema of watch.
func TestSchemaOfWatchHasTheKindsOfTheTable(t *testing.T) {
	text, err := os.ReadFile("../../../docs/schema/output.json")
	require.NoError(t, err)
	var schema struct {
		Defs struct {
			Watch struct {
				Properties struct {
					Kind struct {
						Enum []string `json:"enum"`
					} `json:"kind"`
				} `json:"properties"`
			} `json:"watch"`
		} `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(text, &schema))
	want := slices.DeleteFunc(slices.Collect(maps.Keys(kinds)), func(name string) bool {
		return slices.Contains([]string{KindAppHolds, KindPlugin, KindFabricPair}, name)
	})
	require.ElementsMatch(t, want, schema.Defs.Watch.Properties.Kind.Enum)
}
