package lab

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// DefaultKernel is Debian's meta package for the kernel of the release. BackportsKernel is the one of the release's
// backports, which the host's apt need not know.
const (
	DefaultKernel   = "linux-image-amd64"
	BackportsKernel = "linux-image-amd64/backports"
	// NewestKernel is the one of the next release's backports. Modules for it cannot be built on this release.
	NewestKernel = "linux-image-amd64/trixie-backports"
)

// runsKept is how long the directories of past runs are kept, to examine failures.
const runsKept = 24 * time.Hour

//go:embed evinject/evinject.c
var evinjectSource []byte

//go:embed extstate/extstate.c
var extStateSource []byte

//go:embed linkflap/linkflap.c
var linkflapSource []byte

//go:embed apps/apps.c
var appsSource []byte

//go:embed pvinject/pvinject.c
var pvInjectSource []byte

//go:embed pvhost/pvhost.c
var pvHostSource []byte

//go:embed forger/forger.c
var forgerSource []byte

//go:embed tsckhz/tsckhz.c
var tsckhzSource []byte

// Image is everything that guests boot from. Prepare makes it, and it is read-only after that, so that any number
// of guests may run from it at once.
type Image struct {
	// Release is the kernel's release, as uname -r prints it in the guest.
	Release string

	root      string // the project's directory, which guests see
	cacheDir  string
	kernel    kernel
	initramfs string
	evinject  string // empty for NewestKernel, as is extState
	extState  string
	linkflap  string
	apps      string
	forger    string
	tscKHz    string // of this machine's time stamp counter, which a guest's follows
	siw       string // empty without WithSIW
	pvrdma    paravirtual
	layer     string // a directory that guests see over the host's root; empty without WithNextLibrary
}

// Prepare makes an image of DefaultKernel, or of the kernel package that the environment variable
// LAB_KERNEL names, for guests that see the project's directory root. The files that it fetches and builds are
// kept in build/cache below root, so that only the first call is slow (70 MB to fetch, then some 7 seconds). Two
// processes may call it at once.
func Prepare(ctx context.Context, root string) (*Image, error) {
	pkg := os.Getenv("LAB_KERNEL")
	if pkg == "" {
		pkg = DefaultKernel
	}
	return PrepareKernel(ctx, root, pkg)
}

// PrepareKernel is Prepare for the kernel of the Debian package pkg, which is a meta package or the image itself.
// A suite other than the host's may follow after a slash, as in apt.
func PrepareKernel(ctx context.Context, root, pkg string) (*Image, error) {
	root, cacheDir, err := projectDirs(root)
	if err != nil {
		return nil, err
	}
	if err := requireTools("qemu-system-x86_64", "busybox", "modprobe", "depmod", "dpkg", "make", "cc"); err != nil {
		return nil, err
	}
	unlock, err := lockDir(ctx, cacheDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	sweepRuns(filepath.Join(cacheDir, "runs"))
	return buildImage(ctx, root, cacheDir, pkg)
}

// projectDirs returns the project's directory and the directory of prepared files. Both are without symbolic links,
// because a guest mounts both over its own file systems.
func projectDirs(dir string) (root, cacheDir string, err error) {
	if root, err = filepath.Abs(dir); err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return "", "", fmt.Errorf("find the project's directory: %w", err)
	}
	cacheDir = filepath.Join(root, "build", "cache", "lab")
	if err = os.MkdirAll(cacheDir, 0o755); err == nil {
		cacheDir, err = filepath.EvalSymlinks(cacheDir)
	}
	if err != nil {
		return "", "", fmt.Errorf("make lab cache: %w", err)
	}
	for _, path := range []string{root, cacheDir} {
		if err := visibleInGuest(path); err != nil {
			return "", "", err
		}
	}
	return root, cacheDir, nil
}

func buildImage(ctx context.Context, root, cacheDir, pkg string) (*Image, error) {
	k, err := fetchKernel(ctx, cacheDir, pkg)
	if err != nil {
		return nil, err
	}
	img := &Image{Release: k.release, root: root, cacheDir: cacheDir, kernel: k}
	if img.initramfs, err = buildInitramfs(ctx, cacheDir, k); err != nil {
		return nil, fmt.Errorf("build initramfs for %s: %w", k.release, err)
	}
	if pkg != NewestKernel {
		if img.evinject, err = buildInjector(ctx, cacheDir, k); err != nil {
			return nil, err
		}
		if img.extState, err = buildExtState(ctx, cacheDir, k); err != nil {
			return nil, err
		}
	}
	if img.linkflap, err = compileC(ctx, cacheDir, "linkflap", linkflapSource); err != nil {
		return nil, err
	}
	if img.apps, err = compileC(ctx, cacheDir, "apps", appsSource, "-libverbs", "-pthread"); err != nil {
		return nil, err
	}
	if img.forger, err = compileC(ctx, cacheDir, "forger", forgerSource, "-libverbs"); err != nil {
		return nil, err
	}
	if img.tscKHz, err = tscKHz(ctx, cacheDir); err != nil {
		return nil, err
	}
	return img, nil
}

// tscKHz measures this machine's time stamp counter. A guest that measures it while it boots, with an emulated timer
// on a busy host, may be wrong by a factor of eight. Then its clocks are too fast by that factor.
func tscKHz(ctx context.Context, cacheDir string) (string, error) {
	program, err := compileC(ctx, cacheDir, "tsckhz", tsckhzSource)
	if err != nil {
		return "", err
	}
	out, err := runCommand(ctx, cacheDir, program)
	if err != nil {
		return "", fmt.Errorf("measure the time stamp counter: %w", err)
	}
	return strings.TrimSpace(out), nil
}

// WithSIW returns an image whose guests can load siw, the soft iWARP driver. Debian's kernels come without
// it, so the first call for a kernel fetches its source (140 MB) and builds the driver, in some 20 seconds.
func (img *Image) WithSIW(ctx context.Context) (*Image, error) {
	unlock, err := lockDir(ctx, img.cacheDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	with := *img
	if with.siw, err = buildSIW(ctx, img.cacheDir, img.kernel); err != nil {
		return nil, err
	}
	return &with, nil
}

// requireTools returns an error that names the tools which are not installed.
func requireTools(names ...string) error {
	var missing []string
	for _, name := range names {
		if _, err := findTool(name); err != nil {
			missing = append(missing, name)
		}
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("find %s: not installed; run scripts/packages.sh lab", strings.Join(missing, ", "))
}

// findTool searches /usr/sbin too, because depmod and modprobe are there, and a user's PATH often does not have it.
func findTool(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath(filepath.Join("/usr/sbin", name))
	}
	return path, err
}

// lockDir waits until no other process prepares files in dir. It polls, because a blocked flock would ignore ctx.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lab lock: %w", err)
	}
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for lock %s: %w", f.Name(), ctx.Err())
		case <-retry.C:
		}
	}
}

// sweepRuns removes the directories of old runs. It ignores errors, which only cost disk space.
func sweepRuns(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > runsKept {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// runCommand runs a tool and returns its standard output. An error contains its standard error, or its
// standard output if that is empty.
func runCommand(ctx context.Context, dir, name string, args ...string) (string, error) {
	path, err := findTool(name)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		said := strings.TrimSpace(stderr.String())
		if said == "" {
			said = strings.TrimSpace(string(out))
		}
		return "", fmt.Errorf("run %s %s: %w: %s", name, strings.Join(args, " "), err, said)
	}
	return string(out), nil
}

// contentDigest returns a name for a cached file from the content that the file is made from, so that a change makes a new file.
func contentDigest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		// A hash never returns an error.
		_, _ = fmt.Fprintf(h, "%d\n", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// publishFile makes path by calling fill with a temporary name in the same directory, so that an interrupted run never
// leaves an incomplete result under the final name. It does nothing if path exists.
func publishFile(path string, fill func(tmp string) error) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	tmp := path + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := fill(tmp); err != nil {
		_ = os.RemoveAll(tmp)
		return err
	}
	return os.Rename(tmp, path)
}
