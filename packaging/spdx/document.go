package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

// noAssertion is the value of a field in SPDX that was not examined.
const noAssertion = "NOASSERTION"

// newDocument returns the SPDX document of the programs. Comments about sections refer to the specification of SPDX 2.3.
func newDocument(version string, created time.Time, programs []program, licences map[module]string) *spdx.Document {
	name := "rdma-events-" + strings.TrimPrefix(version, "v")
	d := &spdx.Document{
		SPDXVersion:       spdx.Version,
		DataLicense:       spdx.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      name,
		DocumentNamespace: "https://spdx.org/spdxdocs/" + name + "-" + programsDigest(programs),
		DocumentComment: "What is linked into the programs. The C library and libibverbs belong to the host " +
			"and are found at run time.",
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "rdma_events-packaging-spdx-" + version}},
			Created:  created.UTC().Format("2006-01-02T15:04:05Z"),
		},
	}
	for _, p := range programs {
		d.Packages = append(d.Packages, p.element(version))
		d.Relationships = append(d.Relationships, newRelationship(d.SPDXIdentifier, common.TypeRelationshipDescribe, p.id()))
		for _, m := range p.modules {
			d.Relationships = append(d.Relationships, newRelationship(p.id(), common.TypeRelationshipContains, m.id()))
		}
	}
	for _, m := range modulesOf(programs) {
		d.Packages = append(d.Packages, m.element(licences[m]))
	}
	return d
}

// programsDigest returns a value that differs for each set of programs. Section 6.5 requires a namespace that no other document
// has.
func programsDigest(programs []program) string {
	all := sha256.New()
	for _, p := range programs {
		fmt.Fprintln(all, p.name, p.arch, p.sum)
	}
	return hex.EncodeToString(all.Sum(nil)[:16])
}

func newRelationship(a spdx.ElementID, how string, b spdx.ElementID) *spdx.Relationship {
	return &spdx.Relationship{RefA: spdx.DocElementID{ElementRefID: a}, Relationship: how, RefB: spdx.DocElementID{ElementRefID: b}}
}

func (p program) id() spdx.ElementID { return elementID(p.name + "-" + p.arch) }

func (p program) element(version string) *spdx.Package {
	e := newPackage(p.id(), p.name, strings.TrimPrefix(version, "v"), "MIT")
	e.PackageFileName = p.name
	e.PackageChecksums = []spdx.Checksum{{Algorithm: spdx.SHA256, Value: p.sum}}
	e.PrimaryPackagePurpose = "APPLICATION"
	e.PackageComment = "linux/" + p.arch
	return e
}

func (m module) id() spdx.ElementID { return elementID("module-" + m.String()) }

// purl returns the package URL of the module, with the plus signs of the version escaped.
func (m module) purl() string { return "pkg:golang/" + strings.ReplaceAll(m.String(), "+", "%2B") }

func (m module) element(licences string) *spdx.Package {
	e := newPackage(m.id(), m.path, m.version, licences)
	e.PrimaryPackagePurpose = "LIBRARY"
	e.PackageExternalReferences = []*spdx.PackageExternalReference{{
		Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: m.purl(),
	}}
	if m.sum != "" {
		e.PackageSourceInfo = "in go.sum: " + m.sum
	}
	return e
}

func newPackage(id spdx.ElementID, name, version, licences string) *spdx.Package {
	return &spdx.Package{
		PackageSPDXIdentifier:   id,
		PackageName:             name,
		PackageVersion:          version,
		PackageDownloadLocation: noAssertion,
		PackageLicenseDeclared:  licences,
		PackageLicenseConcluded: noAssertion,
		PackageCopyrightText:    noAssertion,
	}
}

// elementID returns a name as an identifier, in which section 7.2 allows only letters, digits, dots and hyphens. It replaces all
// other characters by hyphens.
func elementID(name string) spdx.ElementID {
	return spdx.ElementID(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.':
			return r
		default:
			return '-'
		}
	}, name))
}
