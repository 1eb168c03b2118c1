// Command spdx writes what built programs contain, as an SPDX document of version
// 2.3 in JSON: the programs with their checksums, the modules that they are linked
// from with versions and licences, and the Go standard library.
//
//	go run ./packaging/spdx -version v0.1.0 -created 2026-01-02T15:04:05Z -out FILE PROGRAM...
//
// The names and versions come from the programs, into which the Go linker wrote them.
// The licences come from the sources of the modules, so the command must run in the
// checkout from which the programs were built. The same programs give the same bytes.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/spdx/tools-golang/json"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "spdx:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	set := flag.NewFlagSet("spdx", flag.ContinueOnError)
	version := set.String("version", "", "the version of the programs")
	created := set.String("created", "", "the time of the document, as 2026-01-02T15:04:05Z")
	out := set.String("out", "", "the file to write")
	if err := set.Parse(args); err != nil {
		return err
	}
	if *version == "" || *out == "" || set.NArg() == 0 {
		return errors.New("want -version, -out and at least one program")
	}
	when, err := time.Parse(time.RFC3339, *created)
	if err != nil {
		return fmt.Errorf("read -created: %w", err)
	}
	programs, err := inspectAll(set.Args())
	if err != nil {
		return err
	}
	licences, err := licencesOf(programs)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Write(newDocument(*version, when, programs, licences), &b, json.Indent(" ")); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return os.WriteFile(*out, b.Bytes(), 0o644)
}
