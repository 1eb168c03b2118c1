package tracer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"rdma_events/internal/sys/status"
)

// forwardKey is the environment variable with the forward.
const forwardKey = "RDMA_EVENTS_TRACE_PREPARED"

// forward is what the first start of a tracer says to the second.
type forward struct {
	Text    string `json:"text,omitempty"` // as in Prepared
	KeepBPF bool   `json:"keep_bpf,omitempty"`
	// Refused is why the tracer cannot trace, with a message; "": it can.
	Refused status.Reason `json:"refused,omitempty"`
	Message string        `json:"message,omitempty"`
}

// longestForward is the most bytes of Prepared.Text. The kernel executes no program with a variable of 128 KiB.
const longestForward = 64 << 10

// leave puts f where the second start takes it.
func (f forward) leave() error {
	if len(f.Text) > longestForward {
		return fmt.Errorf("%d bytes are too long for the second start", len(f.Text))
	}
	text, err := json.Marshal(f)
	if err == nil {
		err = os.Setenv(forwardKey, string(text))
	}
	if err != nil {
		return fmt.Errorf("leave %s to the second start: %w", forwardKey, err)
	}
	return nil
}

// readForward returns what the first start has left.
func readForward() (f forward, err error) {
	if err := json.Unmarshal([]byte(os.Getenv(forwardKey)), &f); err != nil {
		return forward{}, fmt.Errorf("parse %s of the first start: %w", forwardKey, err)
	}
	return f, nil
}

// takeForward is readForward, and takes that and the settings out of the environment.
func takeForward() (forward, error) {
	f, err := readForward()
	return f, errors.Join(err, os.Unsetenv(forwardKey), os.Unsetenv(settingsKey))
}
