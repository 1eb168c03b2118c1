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
		"roff": roff, "sentence": sentence, "quoted": quoted, "plain": plain, "join": strings.Join, "paragraphs": paragraphs,
	}).Parse(texts[args[0]]))
	err := page.Execute(stdout, struct {
		Plugin   []describedFlag
		Commands []described
		Alerts   []string
	}{describeFlags(new(flags).define(io.Discard)), describeCommands(), gen.RuleIDs()})
	return done(0, err)
}

// described is a command as man page and completions have it.
type described struct {
	Name, Synopsis, Does, About string
	Flags                       []describedFlag
}

// describedFlag is a flag. Value is the name of its value, "" where it takes none.
type describedFlag struct{ Name, Value, Text, Default string }

func describeCommands() []described {
	var all []described
	for _, c := range subcommands() {
		d := described{Name: c.name, Synopsis: c.args, Does: c.does, About: c.about}
		if c.flags != nil {
			d.Flags = describeFlags(c.flags(io.Discard))
		}
		all = append(all, d)
	}
	return all
}

// describeFlags returns the flags in the order of their names.
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

// roffWidth is the width above which mandoc -T lint finds fault with a line.
const roffWidth = 80

// roff returns the text as lines of mdoc(7), in which each sentence begins a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && (len(line)+len(word) >= roffWidth || strings.HasSuffix(line, ".")) {
			lines = append(lines, line)
			line = ""
		}
		if line == "" {
			line = strings.TrimLeft(word, ".'") // a control character there
			continue
		}
		line += " " + word
	}
	return strings.Join(append(lines, line), "\n")
}

// paragraphs splits a text at its empty lines.
func paragraphs(text string) []string { return strings.Split(strings.TrimSpace(text), "\n\n") }

// quoted returns the text as one word of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// plain returns a description as _arguments takes it (zshcompsys(1)), which reads colons and brackets.
func plain(text string) string {
	return strings.NewReplacer(":", `\:`, "[", "(", "]", ")").Replace(text)
}
