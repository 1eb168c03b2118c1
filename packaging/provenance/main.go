// Command provenance writes where the files of a release come from, as an in-toto statement of version 1 with a SLSA
// provenance of version 1 in JSON: the files with their checksums, the commit, and how they were built.
//
//	go run ./packaging/provenance -version v0.1.0 -commit 4f0c... -go go1.26.8 -home packaging/home -out FILE FILE...
//
// The statement is not signed: the signature of SHA256SUMS, which lists the statement, covers it. The same files and
// flags give the same bytes.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	statement "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

const predicateType = "https://slsa.dev/provenance/v1"

// release is what the statement says about a release.
type release struct {
	version, commit, goVersion string
	repository                 string // address, from the file of the project's home
	files                      []string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "provenance:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var r release
	set := flag.NewFlagSet("provenance", flag.ContinueOnError)
	set.StringVar(&r.version, "version", "", "tag of the release")
	set.StringVar(&r.commit, "commit", "", "commit of the release")
	set.StringVar(&r.goVersion, "go", "", "version of Go that built it")
	home := set.String("home", "", "file with the address of the repository")
	out := set.String("out", "", "file to write")
	if err := set.Parse(args); err != nil {
		return err
	}
	r.files = set.Args()
	var err error
	if r.repository, err = readRepository(*home); err != nil {
		return err
	}
	text, err := r.statement()
	if err != nil {
		return err
	}
	if err := os.WriteFile(*out, text, 0o644); err != nil {
		return fmt.Errorf("write statement: %w", err)
	}
	return nil
}

var repositoryLine = regexp.MustCompile(`(?m)^REPOSITORY=(\S+)$`)

// errNoRepository is returned if the file of the project's home has no address.
var errNoRepository = errors.New("no line REPOSITORY=")

// readRepository returns the address of the repository.
func readRepository(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read home: %w", err)
	}
	found := repositoryLine.FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("read home %s: %w", path, errNoRepository)
	}
	return string(found[1]), nil
}

// statement returns the statement in JSON, ending with a newline.
func (r *release) statement() ([]byte, error) {
	s := &statement.Statement{Type: statement.StatementTypeUri, PredicateType: predicateType}
	for _, file := range r.files {
		sum, err := sumOf(file)
		if err != nil {
			return nil, err
		}
		s.Subject = append(s.Subject, &statement.ResourceDescriptor{Name: filepath.Base(file), Digest: map[string]string{"sha256": sum}})
	}
	p, err := r.provenance()
	if err != nil {
		return nil, err
	}
	if s.Predicate, err = predicateOf(p); err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("validate statement: %w", err)
	}
	return marshal(s)
}

// provenance returns the predicate. It has no times, so that it depends on the release alone.
func (r *release) provenance() (*provenance.Provenance, error) {
	parameters, err := structpb.NewStruct(map[string]any{"target": "make release", "version": r.version})
	if err != nil {
		return nil, fmt.Errorf("make parameters: %w", err)
	}
	internal, err := structpb.NewStruct(map[string]any{"go": r.goVersion})
	if err != nil {
		return nil, fmt.Errorf("make parameters: %w", err)
	}
	p := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType: r.repository + "/release/v1", ExternalParameters: parameters, InternalParameters: internal,
			ResolvedDependencies: []*statement.ResourceDescriptor{{
				Uri: "git+" + r.repository + "@refs/tags/" + r.version, Digest: map[string]string{"gitCommit": r.commit},
			}},
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: r.repository + "/release/builder"}},
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("validate provenance: %w", err)
	}
	return p, nil
}

func predicateOf(p *provenance.Provenance) (*structpb.Struct, error) {
	text, err := protojson.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write provenance: %w", err)
	}
	s := new(structpb.Struct)
	if err := protojson.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("read provenance: %w", err)
	}
	return s, nil
}

// marshal returns the JSON of a statement. protojson varies its spaces at random, so the text is indented anew.
func marshal(s *statement.Statement) ([]byte, error) {
	text, err := protojson.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write statement: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return nil, fmt.Errorf("indent statement: %w", err)
	}
	return []byte(strings.TrimSpace(b.String()) + "\n"), nil
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("sum: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("sum %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
