package document

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const text = "# Title\n<!-- Begin of table: made by make table. -->\nold\n<!-- End of table. -->\nend\n"

func TestReplaceKeepsTheTextAroundAPart(t *testing.T) {
	got, err := Replace(text, "table", "new\n")
	require.NoError(t, err)
	require.Equal(t, "# Title\n<!-- Begin of table: made by make table. -->\nnew\n<!-- End of table. -->\nend\n", got)
}

func TestMissingPartIsAnError(t *testing.T) {
	for _, name := range []string{"tab", "tables"} {
		_, err := Replace(text, name, "new\n")
		require.ErrorContains(t, err, "Begin of "+name)
	}
	_, err := Replace("<!-- Begin of table: x -->\n", "table", "new\n")
	require.Error(t, err)
}

func TestRewriteChangesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.md")
	require.ErrorIs(t, Rewrite(path, "table", "new\n"), os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	require.ErrorContains(t, Rewrite(path, "other", "new\n"), path)
	require.NoError(t, Rewrite(path, "table", "new\n"))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(got), "\nnew\n")
}
