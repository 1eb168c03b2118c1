package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// project is a git repository of its own with scripts/release.sh. Its go command
// writes one line instead of the SPDX list.
type project struct {
	*testing.T
	dir, bin string
}

// newProject returns a project whose commit may be released as v1.2.3.
func newProject(t *testing.T) *project {
	t.Helper()
	p := &project{T: t, dir: t.TempDir(), bin: t.TempDir()}
	script, err := os.ReadFile("../scripts/release.sh")
	require.NoError(t, err)
	p.write("scripts/release.sh", string(script))
	p.write("CHANGELOG.md", "# Changelog\n\n## v1.2.3\n\n- A line.\n")
	p.write(".gitignore", "/build/\n/dist/\n")
	// -out is the last flag before the programs.
	fake := "#!/bin/sh\ncase $1 in\nenv) echo amd64 ;;\nrun) echo \"$*\" >\"$(echo \"$*\" | sed 's/.*-out \\([^ ]*\\).*/\\1/')\" ;;\nesac\n"
	require.NoError(t, os.WriteFile(filepath.Join(p.bin, "go"), []byte(fake), 0o755))
	p.run("git", "init", "-q", "-b", "main")
	p.commit()
	p.run("git", "tag", "-a", "-m", "a version", "v1.2.3")
	return p
}

func (p *project) write(name, text string) {
	p.Helper()
	path := filepath.Join(p.dir, name)
	require.NoError(p, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(p, os.WriteFile(path, []byte(text), 0o755))
}

// command returns a command in the project, whose git ignores the configuration of the user.
func (p *project) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.Context(), name, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "PATH="+p.bin+":"+os.Getenv("PATH"), "LC_ALL=C", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@localhost", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@localhost")
	return cmd
}

func (p *project) run(name string, args ...string) string {
	p.Helper()
	out, err := p.command(name, args...).CombinedOutput()
	require.NoError(p, err, "%s %v: %s", name, args, out)
	return string(out)
}

func (p *project) commit() {
	p.Helper()
	p.run("git", "add", "-A")
	p.run("git", "commit", "-q", "-m", "a change")
}

// refused requires that release.sh fails, and returns its output.
func (p *project) refused(args ...string) string {
	p.Helper()
	out, err := p.command("scripts/release.sh", args...).CombinedOutput()
	require.Error(p, err, string(out))
	require.True(p, strings.HasPrefix(string(out), "make release: "), string(out))
	return string(out)
}

func TestReleaseWantsAVersion(t *testing.T) {
	t.Parallel()
	require.Empty(t, newProject(t).run("scripts/release.sh", "allowed"))
	for _, tt := range []struct {
		name, want string
		change     func(p *project)
	}{
		{"no tag", "no tag points at this commit", func(p *project) { p.run("git", "tag", "-d", "v1.2.3") }},
		{"a tag of an earlier commit", "no tag points at this commit", func(p *project) {
			p.write("new", "")
			p.commit()
		}},
		{"a lightweight tag", "v1.2.3 is not an annotated tag", func(p *project) { p.run("git", "tag", "-f", "v1.2.3", "HEAD^{}") }},
		{"a tag that is no version", "the tag before is not a version", func(p *project) {
			p.run("git", "tag", "-d", "v1.2.3")
			p.run("git", "tag", "-a", "-m", "no version", "before")
		}},
		{"a changed file", "CHANGELOG.md", func(p *project) { p.write("CHANGELOG.md", "# Changelog\n\n## v1.2.3\n") }},
		{"a file that is not in git", "?? forgotten", func(p *project) { p.write("forgotten", "") }},
		{"no heading", `CHANGELOG.md has no heading "## v1.2.3"`, func(p *project) { p.changelog("## Unreleased\n\n- As v1.2.3\n") }},
		{"the heading of another version", `has no heading "## v1.2.3"`, func(p *project) { p.changelog("## v1.2.30\n") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			tt.change(p)
			require.Contains(t, p.refused("allowed"), tt.want)
		})
	}
}

func TestReleaseTakesAHeadingWithADate(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.changelog("## v1.2.3 (2026-01-02)\n")
	p.run("scripts/release.sh", "allowed")
}

// changelog replaces the changelog in a new commit, and moves the tag to that commit.
func (p *project) changelog(text string) {
	p.Helper()
	p.write("CHANGELOG.md", "# Changelog\n\n"+text)
	p.commit()
	p.run("git", "tag", "-f", "-a", "-m", "a version", "v1.2.3")
}

// packages lists the packages that scripts/package.sh makes.
var packages = []string{
	"rdma-events-1.2.3-1.aarch64.rpm", "rdma-events-1.2.3-1.x86_64.rpm",
	"rdma-events-1.2.3-linux-amd64.tar.gz", "rdma-events-1.2.3-linux-arm64.tar.gz",
	"rdma-events_1.2.3_amd64.deb", "rdma-events_1.2.3_arm64.deb",
	"rdma-events-tracer-1.2.3-1.aarch64.rpm", "rdma-events-tracer-1.2.3-1.x86_64.rpm",
	"rdma-events-tracer_1.2.3_amd64.deb", "rdma-events-tracer_1.2.3_arm64.deb",
}

// pack writes the packages, and the archive of an image of a version. Its tarballs
// have a program that writes the name of the engine.
func (p *project) pack(version string) {
	p.Helper()
	for _, name := range packages {
		p.write("dist/"+name, name)
	}
	p.write("build/programs/rdma-events", "#!/bin/sh\nmkdir -p $3 && echo $5 >$3/engine\n")
	p.write("build/programs/rdma-events-worker", "#!/bin/sh\n")
	p.write("build/programs/rdma-events-tracer", "#!/bin/sh\n")
	for _, arch := range []string{"amd64", "arm64"} {
		p.run("tar", "-C", "build", "-czf", "dist/rdma-events-1.2.3-linux-"+arch+".tar.gz", "programs")
	}
	p.write("build/image/index.json", `{"manifests":[{"annotations":{"org.opencontainers.image.ref.name":"localhost/rdma-events:`+version+`"}}]}`)
	p.write("build/tools/helm", "#!/bin/sh\nmkdir -p $8 && echo \"$*\" >$8/rdma-events-$4.tgz\n")
	p.run("tar", "-C", "build/image", "-cf", "build/image/rdma-events.oci.tar", "index.json")
}

func TestReleaseHasItsFilesAndTheirChecksums(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.pack("v1.2.3")
	p.run("scripts/release.sh", "fill", "dist")
	p.run("scripts/release.sh", "fill", "dist") // again, over the files of the first time
	want := append([]string{
		"rdma-events-assets_1.2.3.tar.gz", "rdma-events-image_1.2.3_amd64.oci.tar", "rdma-events_1.2.3.spdx.json",
		"rdma-events_1.2.3.intoto.json", "rdma-events-chart_1.2.3.tgz",
	}, packages...)
	var summed []string
	sums, err := os.ReadFile(filepath.Join(p.dir, "dist/SHA256SUMS"))
	require.NoError(t, err)
	for line := range strings.Lines(string(sums)) {
		summed = append(summed, strings.Fields(line)[1])
	}
	require.ElementsMatch(t, want, summed)
	entries, err := os.ReadDir(filepath.Join(p.dir, "dist"))
	require.NoError(t, err)
	require.Len(t, entries, len(want)+1)
	p.run("sh", "-c", "cd dist && sha256sum --quiet -c SHA256SUMS")

	for _, engine := range []string{"influxdb", "prometheus"} {
		require.Equal(t, engine+"\n", p.run("tar", "-xOzf", "dist/rdma-events-assets_1.2.3.tar.gz", "rdma-events-assets-1.2.3/"+engine+"/engine"))
	}
	asked, err := os.ReadFile(filepath.Join(p.dir, "dist/rdma-events_1.2.3.spdx.json"))
	require.NoError(t, err)
	require.Regexp(t, `-version v1.2.3 -created \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ -out `, string(asked))
	for _, arch := range []string{"amd64", "arm64"} {
		for _, program := range []string{"rdma-events", "rdma-events-worker", "rdma-events-tracer"} {
			require.Regexp(t, arch+"/"+program+`( |\n|$)`, string(asked))
		}
	}
}

// The releaser names a key. Who has its public key verifies the checksums, and by them all files.
func TestReleaseIsSignedWithTheNamedKey(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.pack("v1.2.3")
	p.run("scripts/release.sh", "fill", "dist")
	require.Contains(t, p.refused("sign", "dist", "missing"), "name the file of an SSH key with KEY=")
	key := filepath.Join(t.TempDir(), "key")
	p.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key)
	p.run("scripts/release.sh", "sign", "dist", key)
	public, err := os.ReadFile(key + ".pub")
	require.NoError(t, err)
	p.write("signers", "releases@example.com "+string(public))
	verify := "cd dist && ssh-keygen -Y verify -f ../signers -I releases@example.com -n rdma_events-release -s SHA256SUMS.sig <SHA256SUMS"
	p.run("sh", "-c", verify)
	p.run("sh", "-c", "cd dist && sha256sum --quiet -c SHA256SUMS")
	p.run("scripts/release.sh", "sign", "dist", key) // again, over the first signature
	p.run("sh", "-c", verify)
	p.run("sh", "-c", "echo >>dist/rdma-events_1.2.3_arm64.deb")
	require.Contains(t, p.refused("sign", "dist", key), "dist has other files than SHA256SUMS lists")
	p.run("sh", "-c", "echo >>dist/SHA256SUMS")
	out, err := p.command("sh", "-c", verify).CombinedOutput()
	require.Error(t, err, "changed checksums: %s", out)
}

func TestReleaseWithOtherFilesIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, image, want string
		change            func(p *project)
	}{
		{"one is missing", "v1.2.3", "< rdma-events_1.2.3_arm64.deb", func(p *project) { p.run("rm", "dist/rdma-events_1.2.3_arm64.deb") }},
		{"one of an earlier version", "v1.2.3", "> rdma-events_1.2.2_arm64.deb", func(p *project) { p.write("dist/rdma-events_1.2.2_arm64.deb", "") }},
		{"no image", "v1.2.3", "make try-image", func(p *project) { p.run("rm", "build/image/rdma-events.oci.tar") }},
		{"an image of an earlier version", "v1.2.2", "is not the image of v1.2.3", func(*project) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			p.pack(tt.image)
			tt.change(p)
			require.Contains(t, p.refused("fill", "dist"), tt.want)
			require.NoFileExists(t, filepath.Join(p.dir, "dist/SHA256SUMS"), "what is not whole has no checksums")
		})
	}
}
