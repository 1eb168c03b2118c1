package lab

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// Shell is an interactive guest on this process's terminal.
type Shell struct {
	// Setup is shell text that runs before the prompt appears.
	Setup string
	Env   []string
	// Size is the size of the terminal as arguments of stty: "rows 24 columns 80". Empty means the guest's default.
	Size string
	// Memory is the guest's memory in MiB (default 1024), CPUs the number of its processors (default 2).
	Memory, CPUs int
}

// Shell boots a guest with its console on standard input and output. It returns when the guest's shell has ended,
// with the exit code of that shell.
func (img *Image) Shell(ctx context.Context, sh Shell) (Result, error) {
	job, err := Job{Memory: sh.Memory, CPUs: sh.CPUs}.withDefaults(img.cacheDir)
	if err != nil {
		return Result{}, err
	}
	g, remove, err := img.newGuest(job)
	if err != nil {
		return Result{}, err
	}
	defer remove()
	var b strings.Builder
	b.WriteString(exportLines(append(img.env(), sh.Env...)))
	if sh.Size != "" {
		fmt.Fprintf(&b, "stty %s\n", sh.Size)
	}
	b.WriteString("export PS1='lab:\\w# '\ncd /root\n")
	fmt.Fprintf(&b, "%s\nexec /bin/bash --norc -i\n", sh.Setup)
	if err := g.writeInit("shell", b.String()); err != nil {
		return Result{}, err
	}
	return g.run(ctx, os.Stdin, os.Stdout, "shell")
}
