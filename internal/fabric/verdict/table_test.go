package verdict

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

func parseSource(t *testing.T, path string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	return f
}

// constantValues returns the values of the package's constants of a type.
func constantValues(t *testing.T, name string) (all []string) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, path := range files {
		ast.Inspect(parseSource(t, path), func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == name && len(spec.Values) == 1 {
				if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
					all = append(all, unquoteLiteral(t, lit))
				}
			}
			return true
		})
	}
	return all
}

func unquoteLiteral(t *testing.T, lit *ast.BasicLit) string {
	text, err := strconv.Unquote(lit.Value)
	require.NoError(t, err)
	return text
}

func TestEachVerdictAndReasonHasOneCompleteRow(t *testing.T) {
	var verdicts, reasons []string
	for _, r := range Verdicts() {
		verdicts = append(verdicts, string(r.Verdict))
		require.True(t, r.OfPair || r.OfPort, r.Verdict)
		for _, text := range []string{string(r.Blames), r.Text, r.Begins, r.Do, r.Colour} {
			require.NotEmpty(t, text, r.Verdict)
		}
		require.Equal(t, r.Blames == BlameNetwork, r.Verdict.IsNetwork(), r.Verdict)
		require.NotContains(t, r.Verdict.Text(), "{", "all placeholders have a general word")
	}
	for _, r := range Reasons() {
		reasons = append(reasons, string(r.Reason))
		for _, text := range []string{string(r.Blames), r.Text, r.Do, r.Colour} {
			require.NotEmpty(t, text, r.Reason)
		}
	}
	require.ElementsMatch(t, constantValues(t, "Verdict"), verdicts)
	require.ElementsMatch(t, constantValues(t, "Reason"), append(reasons, string(ReasonNone)))
}

// Verdicts that blame this host come before those that blame the network, then a peer, then nobody.
func TestVerdictsAndReasonsHaveOneOrderOfSeverity(t *testing.T) {
	seen := map[int]bool{}
	order := []Blame{BlameOwn, BlameNetwork, BlamePeer, BlameNobody}
	last, at := 1000, 0
	for _, r := range Verdicts() {
		require.Less(t, r.Severity, last, r.Verdict)
		last = r.Severity
		seen[r.Severity] = true
		for at < len(order) && order[at] != r.Blames {
			at++
		}
		require.Less(t, at, len(order), "%s blames %s, after rows that blame what matters less", r.Verdict, r.Blames)
	}
	last = 1000
	down, _ := VerdictPeerDown.Row()
	for _, r := range Reasons() {
		require.Less(t, r.Severity, last, r.Reason)
		last = r.Severity
		require.False(t, seen[r.Severity], "%s has the severity of a verdict", r.Reason)
		require.Less(t, r.Severity, down.Severity, "a pair that has not met is milder than any verdict but a busy peer")
	}
}

// Precedence and severity have the same order for verdicts that blame the network or nobody. The peer's report about its port has the highest
// precedence, although it is less severe.
func TestPrecedenceOfEvidenceAgreesWithSeverityAboutTheNetwork(t *testing.T) {
	seen := map[int]bool{}
	last := 1000
	for _, r := range Verdicts() {
		if r.Precedence < 0 {
			require.Equal(t, BlameOwn, r.Blames, "a Judge gives every other verdict")
			continue
		}
		require.False(t, seen[r.Precedence], r.Verdict)
		seen[r.Precedence] = true
		if r.Blames == BlameNetwork || r.Blames == BlameNobody {
			require.Less(t, r.Precedence, last, r.Verdict)
			last = r.Precedence
		}
	}
	for p := range len(seen) {
		require.True(t, seen[p], "no verdict has precedence %d", p)
	}
	require.Equal(t, len(seen)-1, VerdictPeerPort.precedence())
}

func TestVerdictOfALaterVersionHasNoMeaning(t *testing.T) {
	row, ok := Verdict("eclipse").Row()
	require.False(t, ok)
	require.Equal(t, -1, row.Severity)
	require.Empty(t, Verdict("eclipse").Text())
	require.False(t, Verdict("eclipse").IsNetwork())
}

func TestTextsTakeTheDetailsOfAPair(t *testing.T) {
	d := Details{For: " for 2s", State: "down", Path: "path 2", More: ", 17 so far"}
	require.Equal(t, "echo and write silent for 2s, and the peer's process reports its port as down", VerdictPeerPort.Explain(d))
	require.Equal(t, "echo and write silent, and the peer's process reports its port as not active", VerdictPeerPort.Text())
	require.Equal(t, "path 2 silent, other paths are not", VerdictPartial.Explain(d))
	require.Equal(t, "probes lost on the way to the peer, 17 so far", VerdictLossyForward.Explain(d))
}

// The schema of the commands' output allows exactly the verdicts of the table.
func TestSchemaHasTheVerdictsOfTheTable(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/schema/output.json")
	require.NoError(t, err)
	var schema any
	require.NoError(t, json.Unmarshal(text, &schema))
	var ofPair, ofPort []any
	for _, r := range Verdicts() {
		if r.OfPair {
			ofPair = append(ofPair, string(r.Verdict))
		}
		if r.OfPort {
			ofPort = append(ofPort, string(r.Verdict))
		}
	}
	lists := 0
	var look func(at any)
	look = func(at any) {
		switch at := at.(type) {
		case []any:
			for _, one := range at {
				look(one)
			}
		case map[string]any:
			if all, ok := at["enum"].([]any); ok && slices.Contains(all, any(string(VerdictOwnLink))) {
				lists++
				want := ofPort
				if slices.Contains(all, any(string(VerdictPath))) {
					want = ofPair
				}
				require.ElementsMatch(t, want, all)
			}
			for _, one := range at {
				look(one)
			}
		}
	}
	look(schema)
	require.Equal(t, 4, lists, "lists of verdicts in the schema")
}

// Only verdicts without any echo have a text with the duration of the silence, and only verdicts that blame the network are black holes.
func TestTextsSayHowLongNothingIsAnswered(t *testing.T) {
	for _, r := range Verdicts() {
		require.Equal(t, strings.Contains(r.Text, "{for}"), r.Unanswered, r.Verdict)
		require.Equal(t, r.Blames == BlameNetwork && r.Direction == "", r.Blackhole, r.Verdict)
	}
}

// ownWords returns the verdicts and reasons whose names are not used for anything else.
func ownWords() map[string]bool {
	all := map[string]bool{}
	for _, r := range Verdicts() {
		all[string(r.Verdict)] = true
	}
	for _, r := range Reasons() {
		all[string(r.Reason)] = true
	}
	for _, common := range []string{"ok", "starting", "failed", "full", "key", "version", "unsupported"} {
		delete(all, common)
	}
	return all
}

// tableSentences returns the sentences of the table, each up to its first placeholder.
func tableSentences() (all []string) {
	add := func(some ...string) {
		for _, text := range some {
			if text, _, _ = strings.Cut(text, "{"); len(text) > 28 {
				all = append(all, text)
			}
		}
	}
	for _, r := range Verdicts() {
		add(r.Text, r.Begins, r.Do)
	}
	for _, r := range Reasons() {
		add(r.Text, r.Do)
	}
	return all
}

// listers names the files that may list three or more verdicts or reasons, with the purpose of each list.
var listers = map[string]string{
	"internal/agent/inspect/doctor/fabric.go": "which answers prove that a program has the key",
	"internal/fabric/pairs/connect.go":        "which refusals end a pair that had been connected",
}

// No other file of the program orders or explains verdicts or reasons. The test fails for a list of three or more of them, for a switch over
// them, and for a sentence of the table.
func TestNoOtherPlaceExplainsOrOrdersVerdicts(t *testing.T) {
	said, sentences, used := ownWords(), tableSentences(), map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && rel != "." || rel == "build" || rel == "tests" || rel == "docs"):
			return fs.SkipDir
		case d.IsDir(), filepath.Ext(path) != ".go", strings.HasSuffix(path, "_test.go"), filepath.Dir(rel) == "internal/fabric/verdict":
			return nil
		}
		for _, found := range findRestatements(t, parseSource(t, path), said, sentences) {
			if listers[rel] == "" {
				t.Errorf("%s: %s: read internal/fabric/verdict's table instead", rel, found)
			}
			used[rel] = true
		}
		return nil
	})
	require.NoError(t, err)
	for path := range listers {
		require.True(t, used[path], "%s restates nothing: remove it from listers", path)
	}
}

// findRestatements returns descriptions of the places in a file that repeat the table.
func findRestatements(t *testing.T, f *ast.File, said map[string]bool, sentences []string) (found []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				break
			}
			text := unquoteLiteral(t, n)
			for _, sentence := range sentences {
				if strings.Contains(text, sentence) {
					found = append(found, "the sentence "+strconv.Quote(sentence))
				}
			}
			if len(findWords(text, said)) >= 3 {
				found = append(found, "a text with the words "+strings.Join(findWords(text, said), ", "))
			}
		case *ast.CompositeLit:
			if all := findConstants(t, n.Elts, said); len(all) >= 3 {
				found = append(found, "a list of "+strings.Join(all, ", "))
			}
		case *ast.SwitchStmt:
			if all := findConstants(t, caseExpressions(n), said); len(all) >= 3 {
				found = append(found, "a switch over "+strings.Join(all, ", "))
			}
		}
		return true
	})
	return found
}

// findWords returns the words with an underscore that a text contains. Words without an underscore may be ordinary English.
func findWords(text string, said map[string]bool) (all []string) {
	for word := range said {
		if strings.Contains(word, "_") && strings.Contains(text, word) {
			all = append(all, word)
		}
	}
	return all
}

// findConstants returns the words and constants that the expressions are or begin with, each once.
func findConstants(t *testing.T, some []ast.Expr, said map[string]bool) (all []string) {
	seen := map[string]bool{}
	for _, e := range some {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			e = pair.Key
		}
		if row, ok := e.(*ast.CompositeLit); ok && len(row.Elts) > 0 {
			e = row.Elts[0]
		}
		word := ""
		switch e := e.(type) {
		case *ast.BasicLit:
			if e.Kind == token.STRING && said[unquoteLiteral(t, e)] {
				word = unquoteLiteral(t, e)
			}
		case *ast.SelectorExpr:
			if p, ok := e.X.(*ast.Ident); ok && p.Name == "verdict" && (strings.HasPrefix(e.Sel.Name, "Verdict") || strings.HasPrefix(e.Sel.Name, "Reason")) {
				word = e.Sel.Name
			}
		}
		if word != "" && !seen[word] {
			seen[word] = true
			all = append(all, word)
		}
	}
	return all
}

// caseExpressions returns the expressions of all cases of a switch.
func caseExpressions(n *ast.SwitchStmt) (all []ast.Expr) {
	for _, clause := range n.Body.List {
		all = append(all, clause.(*ast.CaseClause).List...)
	}
	return all
}
