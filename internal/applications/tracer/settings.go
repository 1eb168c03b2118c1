package tracer

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// settingsKey is the environment variable with the Settings. Apart from the variables of the handshake, a tracer gets no other variable: it
// starts with privileges, and the host's environment contains secrets.
const settingsKey = "RDMA_EVENTS_TRACE"

// HooksKprobe makes a tracer attach to the kernel by kprobes, which do not prevent modules from being unloaded.
const HooksKprobe = "kprobe"

// AllHooks returns the values of the option hooks.
func AllHooks() []string { return []string{HooksKprobe} }

// Settings has the settings that a tracer needs before it receives a request, while it still has privileges: how it attaches, and which
// files it reads.
type Settings struct {
	Hooks string   `json:"hooks"`           // one of AllHooks; "": the tracer attaches to nothing, as with the simulator
	Reads []string `json:"reads,omitempty"` // absolute paths
}

// encode returns the value of the variable for the settings.
func (s Settings) encode() string {
	text, err := json.Marshal(s)
	if err != nil {
		return "" // strings can be marshalled
	}
	return string(text)
}

// The limits of the variable.
const (
	maxSettings = 16 << 10
	maxReads    = 16
)

// parseSettings parses the variable. It accepts only the exact output of encode.
func parseSettings(text string) (Settings, error) {
	s, err := checkSettings(text)
	if err != nil {
		return Settings{}, fmt.Errorf("parse %s: %w", settingsKey, err)
	}
	return s, nil
}

func checkSettings(text string) (Settings, error) {
	if len(text) > maxSettings {
		return Settings{}, fmt.Errorf("%d bytes are too long", len(text))
	}
	var s Settings
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&s); err != nil {
		return Settings{}, err
	}
	isOdd := func(path string) bool { return !filepath.IsAbs(path) || strings.ContainsRune(path, 0) }
	switch {
	case s.encode() != text:
		return Settings{}, errors.New("it is not as a host of this release writes it")
	case s.Hooks != "" && !slices.Contains(AllHooks(), s.Hooks):
		return Settings{}, fmt.Errorf("hooks = %q is not allowed", s.Hooks)
	case len(s.Reads) > maxReads:
		return Settings{}, fmt.Errorf("%d files are too many", len(s.Reads))
	case slices.ContainsFunc(s.Reads, isOdd):
		return Settings{}, errors.New("it names a file without its whole path")
	}
	return s, nil
}
