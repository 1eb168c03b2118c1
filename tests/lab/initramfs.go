package lab

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed boot/initramfs.sh
var initramfsScript []byte

// initramfsModules are the modules for the 9p root, and for the port that carries the program's output.
var initramfsModules = []string{"virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"}

func buildInitramfs(ctx context.Context, cacheDir string, k kernel) (string, error) {
	modules, err := moduleFiles(ctx, k, initramfsModules)
	if err != nil {
		return "", err
	}
	busybox, err := findTool("busybox")
	if err != nil {
		return "", err
	}
	shell, err := os.ReadFile(busybox)
	if err != nil {
		return "", err
	}
	key := contentDigest(initramfsScript, shell, []byte(strings.Join(modules, "\n")))
	path := filepath.Join(cacheDir, "initramfs-"+k.release+"-"+key+".gz")
	err = publishFile(path, func(tmp string) error {
		archive, err := packInitramfs(shell, modules)
		if err != nil {
			return err
		}
		return os.WriteFile(tmp, archive, 0o644)
	})
	return path, err
}

// moduleFiles returns the files of modules and of all modules that they depend on, in the order in which they
// have to be loaded.
func moduleFiles(ctx context.Context, k kernel, names []string) ([]string, error) {
	var files []string
	for _, name := range names {
		out, err := runCommand(ctx, "", "modprobe", "-d", k.root, "-S", k.release, "--show-depends", name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(out) {
			fields := strings.Fields(line)
			if len(fields) >= 2 && fields[0] == "insmod" && !slices.Contains(files, fields[1]) {
				files = append(files, fields[1])
			}
		}
	}
	return files, nil
}

func packInitramfs(busybox []byte, modules []string) ([]byte, error) {
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	a := &cpio{w: zip}
	for _, dir := range []string{"bin", "proc", "sys", "dev", "mnt", "new", "mods"} {
		a.add(dir, 0o040755, nil)
	}
	a.add("bin/busybox", 0o100755, busybox)
	for _, applet := range []string{"sh", "mount", "insmod", "switch_root", "mkdir"} {
		a.add("bin/"+applet, 0o120777, []byte("busybox"))
	}
	a.add("init", 0o100755, initramfsScript)
	var order []string
	for _, file := range modules {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		order = append(order, filepath.Base(file))
		a.add("mods/"+filepath.Base(file), 0o100644, text)
	}
	a.add("mods/order", 0o100644, []byte(strings.Join(order, "\n")+"\n"))
	a.add("TRAILER!!!", 0, nil)
	if a.err != nil {
		return nil, a.err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// cpio writes the "newc" format, the only one that the kernel unpacks
// (Documentation/driver-api/early-userspace/buffer-format.rst).
type cpio struct {
	w     io.Writer
	inode int
	err   error
}

func (c *cpio) add(name string, mode uint32, body []byte) {
	c.inode++
	header := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		c.inode, mode, 0, 0, 1, 0, len(body), 0, 0, 0, 0, len(name)+1, 0)
	c.write(padToWord([]byte(header + name + "\x00")))
	c.write(padToWord(body))
}

func (c *cpio) write(b []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
}

func padToWord(b []byte) []byte {
	return append(b[:len(b):len(b)], make([]byte, -len(b)&3)...)
}
