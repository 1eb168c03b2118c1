package docs

import (
	"regexp"
	"strings"
)

// NotRun is the text by which a document marks a command that no test runs. It
// stands in the line of the command or at the head of a block.
const NotRun = "not run here"

// Command is one command of a document.
type Command struct {
	Line   int    // of the document, from 1
	Text   string // with continuation lines and here-documents, without its comment
	NotRun bool
}

var (
	// Code in running text is a command when it begins with a program's name.
	inText    = regexp.MustCompile("`((?:make|go|sudo|rdma-events|kubectl|kustomize|docker|systemctl|rdma|ip|lsof|modprobe|ibv_[a-z_]+) [^`]+|make)`")
	indented  = regexp.MustCompile(`^    ((?:[A-Z_]+=\S+ )*(?:make|go|sudo|rdma-events) .*)`)
	comment   = regexp.MustCompile(`(^|\s+)# .*$`)
	heredoc   = regexp.MustCompile(`<<-?'?([A-Z]+)'?`)
	shellOpen = regexp.MustCompile("^```(sh|console|bash)\\s*$")
)

// Commands returns the commands of a document in Markdown: those in shell
// blocks, those indented as code, and those written as code in running text.
func Commands(text string) []Command {
	var all []Command
	lines := strings.Split(text, "\n")
	for n := 0; n < len(lines); n++ {
		switch line := lines[n]; {
		case shellOpen.MatchString(line):
			end := closing(lines, n+1)
			all = append(all, block(lines[n+1:end], n+2)...)
			n = end
		case strings.HasPrefix(line, "```"):
			n = closing(lines, n+1)
		case indented.MatchString(line):
			all = append(all, Command{Line: n + 1, Text: indented.FindStringSubmatch(line)[1]})
		default:
			for _, found := range inText.FindAllStringSubmatch(line, -1) {
				all = append(all, Command{Line: n + 1, Text: found[1], NotRun: strings.Contains(line, NotRun)})
			}
		}
	}
	return all
}

// closing returns the index of the line that ends a block.
func closing(lines []string, from int) int {
	for n := from; n < len(lines); n++ {
		if strings.HasPrefix(lines[n], "```") {
			return n
		}
	}
	return len(lines)
}

func block(lines []string, first int) []Command {
	var all []Command
	whole := false // the head of the block marks all of it as not run
	for n := 0; n < len(lines); n++ {
		begin, line := n, lines[n]
		said := strings.Contains(comment.FindString(line), NotRun)
		text := comment.ReplaceAllString(line, "")
		if strings.TrimSpace(text) == "" {
			whole = whole || said
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
		all = append(all, Command{Line: first + begin, Text: text, NotRun: said || whole})
	}
	return all
}
