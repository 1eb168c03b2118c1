package tracer

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// settingsKey is the environment variable with the Settings. A tracer gets no other variable but those of the handshake:
// it starts with privileges, and the host's environment has secrets.
const settingsKey = "RDMA_EVENTS_TRACE"

// HooksKprobe makes a tracer attach to the kernel by kprobes, which keep no module from being unloaded.
const HooksKprobe = "kprobe"

// AllHooks returns the values of the option hooks.
func AllHooks() []string { return []string{HooksKprobe} }

// Settings are what a tracer has to know before its request comes: how it attaches, and which files it reads, while it can
// still get the rights to do so.
type Settings struct {
	Hooks string   `json:"hooks"`           // one of AllHooks; "": a tracer that attaches to nothing, as the simulator's
	Reads []string `json:"reads,omitempty"` // absolute paths
}

// text returns the settings as the variable has them.
func (s Settings) text() string {
	text, err := json.Marshal(s)
	if err != nil {
		return "" // strings can be marshalled
	}
	return string(text)
}

// The limits of the variable.
const (
	longestSettings = 16 << 10
	mostReads       = 16
)

// parseSettings parses the variable. It accepts what text writes, byte for byte, and nothing else.
func parseSettings(text string) (Settings, error) {
	s, err := checkSettings(text)
	if err != nil {
		return Settings{}, fmt.Errorf("parse %s: %w", settingsKey, err)
	}
	return s, nil
}

func checkSettings(text string) (Settings, error) {
	if len(text) > longestSettings {
		return Settings{}, fmt.Errorf("%d bytes are too long", len(text))
	}
	var s Settings
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&s); err != nil {
		return Settings{}, err
	}
	isOdd := func(path string) bool { return !filepath.IsAbs(path) || strings.ContainsRune(path, 0) }
	switch {
	case s.text() != text:
		return Settings{}, errors.New("it is not as a host of this release writes it")
	case s.Hooks != "" && !slices.Contains(AllHooks(), s.Hooks):
		return Settings{}, fmt.Errorf("hooks = %q is not allowed", s.Hooks)
	case len(s.Reads) > mostReads:
		return Settings{}, fmt.Errorf("%d files are too many", len(s.Reads))
	case slices.ContainsFunc(s.Reads, isOdd):
		return Settings{}, errors.New("it names a file without its whole path")
	}
	return s, nil
}
