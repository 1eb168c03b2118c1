package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"rdma_events/packaging/licences/licence"
)

// standardLibrary is the path that govulncheck and the Go vulnerability database
// use for the Go standard library.
const standardLibrary = "stdlib"

// program is a built program, with the information that the linker wrote into it.
type program struct {
	name, arch string
	sum        string // SHA-256 of the file, in hexadecimal digits
	modules    []module
}

// module is a module that is linked into a program.
type module struct {
	path, version string
	sum           string // as in go.sum; the standard library has none
}

// String returns the module as an argument of `go get`.
func (m module) String() string { return m.path + "@" + m.version }

func inspectAll(paths []string) ([]program, error) {
	var programs []program
	for _, path := range paths {
		p, err := inspectProgram(path)
		if err != nil {
			return nil, fmt.Errorf("inspect %s: %w", path, err)
		}
		programs = append(programs, p)
	}
	return programs, nil
}

func inspectProgram(path string) (program, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return program{}, err
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return program{}, err
	}
	sum := sha256.Sum256(file)
	p := program{name: filepath.Base(path), arch: buildSetting(info, "GOARCH"), sum: hex.EncodeToString(sum[:])}
	if p.arch == "" {
		return program{}, errors.New("it does not say for which architecture it was built")
	}
	p.modules = []module{{path: standardLibrary, version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		p.modules = append(p.modules, module{path: d.Path, version: d.Version, sum: d.Sum})
	}
	return p, nil
}

func buildSetting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// modulesOf returns the modules of all programs, each once and in order.
func modulesOf(programs []program) []module {
	var all []module
	for _, p := range programs {
		all = append(all, p.modules...)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// licencesOf returns the SPDX expression of each module's licences.
func licencesOf(programs []program) (map[module]string, error) {
	modules := modulesOf(programs)
	dirs, err := moduleDirs(modules)
	if err != nil {
		return nil, err
	}
	licences := map[module]string{}
	for _, m := range modules {
		texts, err := licence.Texts(m.path, dirs[m])
		if err != nil {
			return nil, err
		}
		names, err := licence.Identify(texts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m, err)
		}
		licences[m] = strings.Join(names, " AND ")
	}
	return licences, nil
}

// moduleDirs returns the source directory of each module. It returns an error if this checkout has another version of Go or of a
// module than the programs.
func moduleDirs(modules []module) (map[module]string, error) {
	found, err := checkoutDirs(modules)
	if err != nil {
		return nil, err
	}
	out, err := exec.Command("go", "env", "GOVERSION", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find the Go standard library: %w", err)
	}
	version, root, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	found[module{path: standardLibrary, version: strings.TrimPrefix(version, "go")}.String()] = root
	dirs := map[module]string{}
	for _, m := range modules {
		dirs[m] = found[m.String()]
		if dirs[m] == "" {
			return nil, fmt.Errorf("%s is in a program and not in this checkout: build the programs again", m)
		}
	}
	return dirs, nil
}

// checkoutDirs returns the directories of the modules in this checkout. The key is path@version.
func checkoutDirs(modules []module) (map[string]string, error) {
	args := []string{"list", "-m", "-json=Path,Version,Dir"}
	for _, m := range modules {
		if m.path != standardLibrary {
			args = append(args, m.path)
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the modules of this checkout: %w", err)
	}
	dirs := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Version, Dir string }
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			return dirs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the modules of this checkout: %w", err)
		}
		dirs[m.Path+"@"+m.Version] = m.Dir
	}
}
