// Command fabricdoc generates the tables of verdicts and reasons in docs/reference/verdicts.md from internal/fabric/verdict.
// Its argument is that file. It replaces the text between two comments for each table.
package main

import (
	"fmt"
	"os"
	"strings"

	"rdma_events/docs/document"
	"rdma_events/internal/fabric/verdict"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: fabricdoc FILE")
		os.Exit(2)
	}
	for _, p := range generatedParts() {
		if err := document.Rewrite(os.Args[1], p.name, p.text); err != nil {
			fmt.Fprintln(os.Stderr, "fabricdoc:", err)
			os.Exit(1)
		}
	}
}

// part is a generated part of the document.
type part struct {
	name string // used in the comments around it
	text string
}

func generatedParts() []part { return []part{{"verdicts", verdictTable()}, {"reasons", reasonTable()}} }

func verdictTable() string {
	var b strings.Builder
	b.WriteString("| verdict | blames | what it means | when it begins | what to do |\n|---|---|---|---|---|\n")
	for _, r := range verdict.Verdicts() {
		word := "`" + string(r.Verdict) + "`"
		if !r.OfPair {
			word += " (of the port only)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", word, r.Blames, r.Verdict.Text(), r.Begins, r.Do)
	}
	return b.String()
}

func reasonTable() string {
	var b strings.Builder
	b.WriteString("| reason | blames | what it means | what to do |\n|---|---|---|---|\n")
	for _, r := range verdict.Reasons() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Reason, r.Blames, r.Text, r.Do)
	}
	return b.String()
}
