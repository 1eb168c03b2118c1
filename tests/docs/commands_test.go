package docs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const document = "# Title\n" + // line 1
	"Say `make test` or `rdma link`, not `make`d things like `rdma_device`.\n" +
	"There is `make bench`.\n" +
	"```sh\n" +
	"make run   # until Ctrl-C\n" +
	"tee f <<'EOF'\n" +
	"# kept\n" +
	"EOF\n" +
	"a \\\n" +
	"  b\n" +
	"kubectl get pods  # all of them\n" +
	"```\n" +
	"```toml\n" +
	"make = \"nothing\"\n" +
	"```\n" +
	"```sh no-test\n" +
	"# a comment\n" +
	"one\n" +
	"two\n" +
	"```\n"

func TestCommandsAreFoundInBlocksOfShellAndInText(t *testing.T) {
	require.Equal(t, []Command{
		{Line: 2, Text: "make test"},
		{Line: 2, Text: "rdma link"},
		{Line: 2, Text: "make"},
		{Line: 3, Text: "make bench"},
		{Line: 5, Text: "make run"},
		{Line: 6, Text: "tee f <<'EOF'\n# kept\nEOF"},
		{Line: 9, Text: "a \\\n  b"},
		{Line: 11, Text: "kubectl get pods"},
		{Line: 18, Text: "one", NotRun: true},
		{Line: 19, Text: "two", NotRun: true},
	}, Commands(document))
}
