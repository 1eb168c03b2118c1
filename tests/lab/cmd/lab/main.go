// Command lab runs programs by hand in a lab guest. It is started in the project's root:
//
//	go run ./tests/lab/cmd/lab prepare         fetch and build what guests need
//	go run ./tests/lab/cmd/lab shell           an interactive guest with an RDMA device
//	go run ./tests/lab/cmd/lab run PATH ARGS   one program in a guest
//
// LAB_KERNEL names a kernel package other than the release's, for example linux-image-amd64/backports.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"rdma_events/tests/lab"
)

//go:embed setup.sh
var setup string

var errUsage = errors.New("usage: lab prepare | shell | run PATH ARGS")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (int, error) {
	if len(args) == 0 {
		return 2, errUsage
	}
	command, args := args[0], args[1:]
	do, ok := map[string]func(context.Context, *lab.Image, []string) (int, error){
		"prepare": func(context.Context, *lab.Image, []string) (int, error) { return 0, nil },
		"shell":   shell,
		"run":     runProgram,
	}[command]
	if !ok {
		return 2, errUsage
	}
	img, err := lab.Prepare(ctx, ".")
	if err != nil {
		return 1, err
	}
	return do(ctx, img, args)
}

func runProgram(ctx context.Context, img *lab.Image, args []string) (int, error) {
	if len(args) == 0 {
		return 2, errUsage
	}
	dir, err := os.Getwd()
	if err != nil {
		return 1, err
	}
	path, err := absolutePath(args[0])
	if err != nil {
		return 1, err
	}
	job := lab.Job{Path: path, Args: args[1:], Dir: dir, Env: programVariables(dir), Stdout: os.Stdout}
	res, err := img.Run(ctx, job)
	if err != nil {
		return 1, err
	}
	fmt.Fprintf(os.Stderr, "lab: boot %.1f s, all %.1f s, exit status %d, /out was %s\n",
		res.Boot.Seconds(), res.Total.Seconds(), res.ExitCode, res.OutDir)
	return res.ExitCode, nil
}

// absolutePath finds a program as a shell does and returns its absolute path, because the guest starts in another working directory.
func absolutePath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find program: %w", err)
	}
	return filepath.Abs(path)
}

func shell(ctx context.Context, img *lab.Image, _ []string) (int, error) {
	dir, err := os.Getwd()
	if err != nil {
		return 1, err
	}
	fmt.Fprintf(os.Stderr, "lab: booting Linux %s, some 6 seconds\n", img.Release)
	res, err := img.Shell(ctx, lab.Shell{Setup: setup, Env: programVariables(dir), Size: terminalSize()})
	return res.ExitCode, err
}

func programVariables(dir string) []string {
	return []string{
		"RDMA_EVENTS_BIN=" + filepath.Join(dir, "build/rdma-events"),
		"RDMA_EVENTS_WORKER=" + filepath.Join(dir, "build/rdma-events-worker"),
		"RDMA_EVENTS_TRACER=" + filepath.Join(dir, "build/rdma-events-tracer"),
		"TELEGRAF_BIN=" + filepath.Join(dir, "build/tools/telegraf"),
	}
}

// terminalSize queries the terminal before the guest uses it: a virtio console does not pass its size on.
func terminalSize() string {
	cmd := exec.Command("stty", "size")
	cmd.Stdin = os.Stdin
	out, err := cmd.Output()
	size := strings.Fields(string(out))
	if err != nil || len(size) != 2 || size[0] == "0" {
		return ""
	}
	return "rows " + size[0] + " columns " + size[1]
}
