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

// forward is the data that the first execution of a tracer passes to the second.
type forward struct {
	Text    string `json:"text,omitempty"` // as in Prepared
	KeepBPF bool   `json:"keep_bpf,omitempty"`
	// Refused is the reason why the tracer cannot trace; "": it can.
	Refused status.Reason `json:"refused,omitempty"`
	Message string        `json:"message,omitempty"`
}

// maxForward is the maximum size of Prepared.Text in bytes. The kernel executes no program with a variable of 128 KiB.
const maxForward = 64 << 10

// store puts f into the environment for the second execution.
func (f forward) store() error {
	if len(f.Text) > maxForward {
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

// readForward returns the data that the first execution has stored.
func readForward() (f forward, err error) {
	if err := json.Unmarshal([]byte(os.Getenv(forwardKey)), &f); err != nil {
		return forward{}, fmt.Errorf("parse %s of the first start: %w", forwardKey, err)
	}
	return f, nil
}

// takeForward returns the stored data and removes it and the settings from the environment.
func takeForward() (forward, error) {
	f, err := readForward()
	return f, errors.Join(err, os.Unsetenv(forwardKey), os.Unsetenv(settingsKey))
}
