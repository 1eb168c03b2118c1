package docs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const document = "# Title\n" + // line 1
	"Say `make test` or `rdma link`, not `make`d things like `rdma_device`.\n" +
	"There is `make bench` (not run here: it takes long).\n" +
	"```sh\n" +
	"make run   # until Ctrl-C\n" +
	"tee f <<'EOF'\n" +
	"# kept\n" +
	"EOF\n" +
	"a \\\n" +
	"  b\n" +
	"kubectl get pods  # not run here: no cluster\n" +
	"```\n" +
	"```toml\n" +
	"make = \"nothing\"\n" +
	"```\n" +
	"```sh\n" +
	"# not run here: no Grafana\n" +
	"one\n" +
	"two\n" +
	"```\n"

func TestCommandsAreFoundInBlocksOfShellAndInText(t *testing.T) {
	require.Equal(t, []Command{
		{Line: 2, Text: "make test"},
		{Line: 2, Text: "rdma link"},
		{Line: 2, Text: "make"},
		{Line: 3, Text: "make bench", NotRun: true},
		{Line: 5, Text: "make run"},
		{Line: 6, Text: "tee f <<'EOF'\n# kept\nEOF"},
		{Line: 9, Text: "a \\\n  b"},
		{Line: 11, Text: "kubectl get pods", NotRun: true},
		{Line: 18, Text: "one", NotRun: true},
		{Line: 19, Text: "two", NotRun: true},
	}, Commands(document))
}
