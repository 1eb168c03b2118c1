//go:build schema

package packaging

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

const installedVersion = "v0.1.0"

// `go install` wants a module whose path is an address. Only a home of the project can give it one; until then this test
// gives the module the path of packaging/home, and serves it as a module proxy does.
func TestProgramsAreInstalledByGoFromAProxy(t *testing.T) {
	home, err := os.ReadFile("home")
	require.NoError(t, err)
	path := regexp.MustCompile(`(?m)^MODULE=(\S+)$`).FindSubmatch(home)
	require.NotNil(t, path, "packaging/home has no line MODULE=")
	proxy := t.TempDir()
	publish(t, string(path[1]), moduleCopy(t, string(path[1])), proxy)
	bin := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "install", string(path[1])+"/cmd/...@"+installedVersion)
	cmd.Dir = t.TempDir()
	// The modules that it needs come from the cache of this checkout's. It has its own cache: of one version, a cache
	// keeps the first text.
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "GOMODCACHE="+t.TempDir(), "GOFLAGS=-modcacherw", "GONOSUMDB=*", "GOWORK=off",
		"GOPROXY=file://"+proxy+",file://"+goEnv(t, "GOMODCACHE")+"/cache/download")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, program := range []string{"rdma-events", "rdma-events-worker", "rdma-events-tracer"} {
		require.FileExists(t, filepath.Join(bin, program))
	}
	version, err := exec.CommandContext(t.Context(), filepath.Join(bin, "rdma-events"), "-version").CombinedOutput()
	require.NoError(t, err, string(version))
	require.Contains(t, string(version), installedVersion)
	conf := filepath.Join(t.TempDir(), "rdma_events.conf")
	require.NoError(t, os.WriteFile(conf, []byte("[[inputs.rdma_events]]\n  backend = \"sim\"\n"), 0o600))
	// doctor tries the worker that is beside the program.
	check, err := exec.CommandContext(t.Context(), filepath.Join(bin, "rdma-events"), "check", "-config", conf).CombinedOutput()
	require.NoError(t, err, string(check))
	require.Contains(t, string(check), "watched: sim0, sim1")
}

// moduleCopy returns a directory with the files of this commit, in which the module has another path.
func moduleCopy(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = ".."
	names, err := list.Output()
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		from := filepath.Join("..", name)
		info, err := os.Lstat(from)
		require.NoError(t, err)
		if !info.Mode().IsRegular() {
			continue
		}
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		switch {
		case name == "go.mod":
			text = bytes.Replace(text, []byte("module rdma_events\n"), []byte("module "+path+"\n"), 1)
		case strings.HasSuffix(name, ".go"):
			text = bytes.ReplaceAll(text, []byte(`"rdma_events/`), []byte(`"`+path+`/`))
		}
		to := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, text, 0o600))
	}
	return dir
}

// publish puts the module in dir into a directory that serves as a module proxy.
func publish(t *testing.T, path, dir, proxy string) {
	t.Helper()
	at := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	require.NoError(t, os.MkdirAll(at, 0o755))
	var archive bytes.Buffer
	require.NoError(t, modzip.CreateFromDir(&archive, module.Version{Path: path, Version: installedVersion}, dir))
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	for name, text := range map[string][]byte{
		"list": []byte(installedVersion + "\n"), installedVersion + ".zip": archive.Bytes(), installedVersion + ".mod": mod,
		installedVersion + ".info": fmt.Appendf(nil, `{"Version":%q}`, installedVersion),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(at, name), text, 0o600))
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
