package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// statusReasons returns the constants of type status.Reason, as written in the code.
func statusReasons(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "internal/sys/status/reason.go"), nil, 0)
	require.NoError(t, err)
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Reason" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			all = append(all, value)
		}
		return true
	})
	require.Greater(t, len(all), 10)
	return all
}

func TestEachReasonHasAChapterInTroubleshooting(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/how-to/troubleshooting.md"))
	require.NoError(t, err)
	_, chapters, found := strings.Cut(string(text), "## By reason\n")
	require.True(t, found)
	var named []string
	for _, title := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(chapters, -1) {
		named = append(named, title[1])
	}
	require.ElementsMatch(t, statusReasons(t), named)
}

// Links within the project lead to a file, and to a title in it if they name one.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):#]*)(#[a-z0-9_-]+)?\)`)
	for _, path := range documentPaths(t) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			to := path
			if found[1] != "" {
				to = filepath.Join(filepath.Dir(path), found[1])
			}
			_, err := os.Stat(to)
			require.NoError(t, err, "%s: %s", path, found[0])
			if found[2] != "" {
				require.Contains(t, documentAnchors(t, to), found[2], "%s: %s", path, found[0])
			}
		}
	}
}

// documentAnchors returns the anchors of the titles in a document, as links use them.
func documentAnchors(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var all []string
	for _, title := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		plain := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(title[1]), "")
		all = append(all, "#"+strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}
