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
	// Size is the terminal's, as stty takes it: "rows 24 columns 80". Empty leaves the guest's own.
	Size string
	// Memory in MiB (1024) and CPUs (2) are the guest's.
	Memory, CPUs int
}

// Shell boots a guest with its console on standard input and output and returns when its shell has ended.
// The exit code is the shell's.
func (img *Image) Shell(ctx context.Context, sh Shell) (Result, error) {
	job, err := Job{Memory: sh.Memory, CPUs: sh.CPUs}.withDefaults(img.cacheDir)
	if err != nil {
		return Result{}, err
	}
	g := &guest{image: img, outDir: job.OutDir, memory: job.Memory, cpus: job.CPUs}
	var b strings.Builder
	b.WriteString(exports(append(img.env(), sh.Env...)))
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
