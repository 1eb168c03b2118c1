// Package licence finds and names the licences of Go modules.
package licence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Texts returns the texts of the licence files in a module's root directory. A
// module without one is an error. The path of the module is for errors.
func Texts(module, dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for the licence of %s: %w", module, err)
	}
	var texts []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		begins := func(with string) bool { return strings.HasPrefix(name, with) }
		if e.IsDir() || !slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE"}, begins) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the licence of %s: %w", module, err)
		}
		texts = append(texts, string(text))
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s has no licence file in %s", module, dir)
	}
	return texts, nil
}

// Identify returns the SPDX names of the licences in texts, which all apply. It
// recognizes each licence by a phrase that only this licence has. An unknown
// licence is an error, because a person has to read it.
func Identify(texts []string) ([]string, error) {
	var names []string
	for _, text := range texts {
		text = strings.Join(strings.Fields(text), " ")
		for _, l := range []struct{ name, says, not string }{
			{"Apache-2.0", "Apache License Version 2.0", ""},
			{"MPL-2.0", "Mozilla Public License Version 2.0", ""},
			{"MPL-2.0", "Mozilla Public License, version 2.0", ""},
			{"MIT", "Permission is hereby granted, free of charge", ""},
			{"MIT", "PERMISSION is hereby granted, free of charge", ""},
			{"BSD-3-Clause", "to endorse or promote products", ""},
			{"BSD-2-Clause", "Redistributions in binary form must reproduce", "to endorse or promote products"},
			{"ISC", "Permission to use, copy, modify, and/or distribute this software", ""},
			{"ISC", "Permission to use, copy, modify, and distribute this software for any", ""},
		} {
			if strings.Contains(text, l.says) && (l.not == "" || !strings.Contains(text, l.not)) && !slices.Contains(names, l.name) {
				names = append(names, l.name)
			}
		}
	}
	if len(names) == 0 {
		return nil, errors.New("its licence is not known to this program: read it, and teach Identify what it says")
	}
	return names, nil
}
