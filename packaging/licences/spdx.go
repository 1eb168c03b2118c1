package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdxlib"
)

// noAssertion is SPDX's word for what a list does not say.
const noAssertion = "NOASSERTION"

// bill writes the SPDX list of what programs are linked from, by the build information
// in them. version is the release, made the time that the list names.
func bill(w io.Writer, version string, made time.Time, programs []string) error {
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: "rdma-events-" + version, DocumentNamespace: "urn:rdma-events:spdx:" + version,
		CreationInfo: &spdx.CreationInfo{
			Created:  made.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "rdma_events-packaging-licences"}},
		},
	}
	licences, err := licencesByModule()
	if err != nil {
		return err
	}
	known := map[common.ElementID]bool{}
	for _, program := range programs {
		if err := addProgram(doc, known, program, version, licences); err != nil {
			return fmt.Errorf("list what %s is linked from: %w", program, err)
		}
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		return fmt.Errorf("validate the list: %w", err)
	}
	if err := json.Write(doc, w, json.Indent(" ")); err != nil {
		return fmt.Errorf("write the list: %w", err)
	}
	return nil
}

// licencesByModule returns the SPDX expression of each module in docs/licences.md's sense.
func licencesByModule() (map[string]string, error) {
	modules, err := linked()
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, m := range modules {
		texts, err := m.licences()
		if err != nil {
			return nil, err
		}
		name, err := identify(texts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		all[m.Path] = strings.ReplaceAll(name, " and ", " AND ")
	}
	return all, nil
}

// addProgram adds a program and what it is linked from. known has the packages that the
// document has already.
func addProgram(doc *spdx.Document, known map[common.ElementID]bool, path, version string, licences map[string]string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	arch := setting(info, "GOARCH")
	name := filepath.Base(path)
	if arch == "" {
		return errors.New("its build information names no architecture")
	}
	program := packageOf(name+"-"+arch, version, "MIT")
	program.PackageFileName = name
	program.PrimaryPackagePurpose = "APPLICATION"
	if known[program.PackageSPDXIdentifier] {
		return fmt.Errorf("there are two programs %s for %s", name, arch)
	}
	known[program.PackageSPDXIdentifier] = true
	doc.Packages = append(doc.Packages, program)
	doc.Relationships = append(doc.Relationships, relation("DOCUMENT", "DESCRIBES", program.PackageSPDXIdentifier))
	for _, m := range modulesIn(info) {
		licence, ok := licences[m.Path]
		if !ok {
			return fmt.Errorf("the licence of %s is not known: the program is not of this commit", m.Path)
		}
		p := packageOf(m.Path, m.Version, licence)
		p.PackageExternalReferences = []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: locator(m),
		}}
		p.PackageSourceInfo = cmp.Or(digest(m.Sum), p.PackageSourceInfo)
		if !known[p.PackageSPDXIdentifier] {
			known[p.PackageSPDXIdentifier] = true
			doc.Packages = append(doc.Packages, p)
		}
		doc.Relationships = append(doc.Relationships, relation(program.PackageSPDXIdentifier, "STATIC_LINK", p.PackageSPDXIdentifier))
	}
	return nil
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// modulesIn returns the modules in a program, by their paths. The standard library is
// the first of them.
func modulesIn(info *debug.BuildInfo) []debug.Module {
	all := map[string]debug.Module{}
	for _, m := range info.Deps {
		for m.Replace != nil {
			m = m.Replace
		}
		all[m.Path] = *m
	}
	sorted := []debug.Module{{Path: standardLibrary, Version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		sorted = append(sorted, all[path])
	}
	return sorted
}

func packageOf(name, version, licence string) *spdx.Package {
	return &spdx.Package{
		PackageName: name, PackageVersion: version,
		PackageSPDXIdentifier:   identifier(name, version),
		PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion,
		PackageLicenseDeclared: licence, PackageCopyrightText: noAssertion,
	}
}

// notInIdentifiers matches what SPDX allows in no identifier (SPDX 2.3, 7.2).
var notInIdentifiers = regexp.MustCompile(`[^A-Za-z0-9.-]`)

// identifier returns an identifier that differs for different names: what is not allowed
// is written as its number.
func identifier(name, version string) common.ElementID {
	text := notInIdentifiers.ReplaceAllStringFunc(name+"-"+version, func(c string) string {
		return "-" + strconv.Itoa(int([]byte(c)[0])) + "-"
	})
	return common.ElementID(text)
}

// locator returns a module's package URL (purl-spec, types golang and generic).
func locator(m debug.Module) string {
	version := strings.ReplaceAll(m.Version, "+", "%2B")
	if m.Path == standardLibrary {
		return "pkg:golang/stdlib@" + version
	}
	return "pkg:golang/" + m.Path + "@" + version
}

// digest returns what a module's sum in go.sum says: "h1:" is a SHA-256 of its files'
// SHA-256, which is the checksum of no one file.
func digest(sum string) string {
	encoded, ok := strings.CutPrefix(sum, "h1:")
	if !ok {
		return ""
	}
	binary, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return ""
	}
	return "go.sum h1: " + hex.EncodeToString(binary)
}

func relation(from common.ElementID, is string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{
		RefA: common.MakeDocElementID("", string(from)), Relationship: is, RefB: common.MakeDocElementID("", string(to)),
	}
}

// writeBill writes the SPDX list of the programs to a file. The version and the time come
// from the environment of scripts/release.sh.
func writeBill(path string, programs []string) error {
	version := os.Getenv("VERSION")
	if version == "" {
		return errors.New("VERSION is not set")
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("read SOURCE_DATE_EPOCH: %w", err)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := bill(f, version, time.Unix(seconds, 0), programs); err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	return f.Close()
}
