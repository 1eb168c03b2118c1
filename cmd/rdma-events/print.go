package main

import (
	_ "embed"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"rdma_events/assets/gen"
)

//go:embed print_bash.tmpl
var bashCompletion string

//go:embed print_zsh.tmpl
var zshCompletion string

//go:embed print_man.tmpl
var manualPage string

// printText runs the subcommand print.
func printText(args []string, stdout, stderr io.Writer) int {
	texts := map[string]string{"man": manualPage, "bash": bashCompletion, "zsh": zshCompletion}
	if len(args) != 1 || texts[args[0]] == "" {
		fmt.Fprintln(stderr, "rdma-events print: want one of man, bash and zsh")
		return exitUsage
	}
	page := template.Must(template.New(args[0]).Funcs(template.FuncMap{
		"roff": formatMdoc, "sentence": capitalize, "quoted": shellQuote, "plain": zshEscape, "join": strings.Join, "paragraphs": splitParagraphs,
	}).Parse(texts[args[0]]))
	err := page.Execute(stdout, struct {
		Plugin   []describedFlag
		Commands []describedCommand
		Alerts   []string
	}{describeFlags(new(pluginFlags).define(io.Discard)), describeCommands(), gen.RuleIDs()})
	return exitAfterWrite(0, err)
}

// describedCommand describes a command for the man page and the completions.
type describedCommand struct {
	Name, Synopsis, Does, About string
	Flags                       []describedFlag
}

// describedFlag describes a flag. Value is the name of its value, or "" if it takes none.
type describedFlag struct{ Name, Value, Text, Default string }

func describeCommands() []describedCommand {
	var all []describedCommand
	for _, c := range subcommands() {
		d := describedCommand{Name: c.name, Synopsis: c.args, Does: c.summary, About: c.about}
		if c.flags != nil {
			d.Flags = describeFlags(c.flags(io.Discard))
		}
		all = append(all, d)
	}
	return all
}

// describeFlags returns the flags sorted by name.
func describeFlags(set *flag.FlagSet) []describedFlag {
	var all []describedFlag
	set.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		one := describedFlag{Name: f.Name, Value: value, Text: text}
		if !slices.Contains([]string{"", "0", "0s", "false"}, f.DefValue) {
			one.Default = f.DefValue
		}
		all = append(all, one)
	})
	return all
}

// roffWidth is the line width above which mandoc -T lint complains.
const roffWidth = 80

// formatMdoc returns the text as lines of mdoc(7). Each sentence begins on a new line.
func formatMdoc(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && (len(line)+len(word) >= roffWidth || strings.HasSuffix(line, ".")) {
			lines = append(lines, line)
			line = ""
		}
		if line == "" {
			line = strings.TrimLeft(word, ".'") // they are control characters at the start of a line
			continue
		}
		line += " " + word
	}
	return strings.Join(append(lines, line), "\n")
}

// splitParagraphs splits a text at its empty lines.
func splitParagraphs(text string) []string { return strings.Split(strings.TrimSpace(text), "\n\n") }

// shellQuote returns the text as one word of a shell.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// zshEscape escapes a description for _arguments (zshcompsys(1)), to which colons and brackets have a meaning.
func zshEscape(text string) string {
	return strings.NewReplacer(":", `\:`, "[", "(", "]", ")").Replace(text)
}
