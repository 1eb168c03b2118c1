package docs

import (
	"regexp"
	"strings"
)

// Command is one command of a document.
type Command struct {
	Line   int    // of the document, from 1
	Text   string // with continuation lines and here-documents, without its comment
	NotRun bool   // it stands in a block that is marked no-test, which no reader of the rendered document sees
}

var (
	// inText matches code in running text. It is a command if it begins with a program's name.
	inText    = regexp.MustCompile("`((?:make|go|sudo|rdma-events|kubectl|kustomize|docker|systemctl|rdma|ip|lsof|modprobe|ibv_[a-z_]+) [^`]+|make)`")
	indented  = regexp.MustCompile(`^    ((?:[A-Z_]+=\S+ )*(?:make|go|sudo|rdma-events) .*)`)
	comment   = regexp.MustCompile(`(^|\s+)# .*$`)
	heredoc   = regexp.MustCompile(`<<-?'?([A-Z]+)'?`)
	shellOpen = regexp.MustCompile("^```(?:sh|console|bash)( no-test)?\\s*$")
)

// Commands returns the commands of a document in Markdown: those in shell
// blocks, those indented as code, and those written as code in running text.
func Commands(text string) []Command {
	var all []Command
	lines := strings.Split(text, "\n")
	for n := 0; n < len(lines); n++ {
		switch line := lines[n]; {
		case shellOpen.MatchString(line):
			end := blockEnd(lines, n+1)
			noTest := shellOpen.FindStringSubmatch(line)[1] != ""
			all = append(all, blockCommands(lines[n+1:end], n+2, noTest)...)
			n = end
		case strings.HasPrefix(line, "```"):
			n = blockEnd(lines, n+1)
		case indented.MatchString(line):
			all = append(all, Command{Line: n + 1, Text: indented.FindStringSubmatch(line)[1]})
		default:
			for _, found := range inText.FindAllStringSubmatch(line, -1) {
				all = append(all, Command{Line: n + 1, Text: found[1]})
			}
		}
	}
	return all
}

// blockEnd returns the index of the line that ends a code block.
func blockEnd(lines []string, from int) int {
	for n := from; n < len(lines); n++ {
		if strings.HasPrefix(lines[n], "```") {
			return n
		}
	}
	return len(lines)
}

func blockCommands(lines []string, first int, noTest bool) []Command {
	var all []Command
	for n := 0; n < len(lines); n++ {
		begin, text := n, comment.ReplaceAllString(lines[n], "")
		if strings.TrimSpace(text) == "" {
			continue
		}
		for strings.HasSuffix(text, "\\") && n+1 < len(lines) {
			n++
			text += "\n" + lines[n]
		}
		if end := heredoc.FindStringSubmatch(text); end != nil {
			for n+1 < len(lines) {
				n++
				text += "\n" + lines[n]
				if lines[n] == end[1] {
					break
				}
			}
		}
		all = append(all, Command{Line: first + begin, Text: text, NotRun: noTest})
	}
	return all
}
