package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"rdma_events/internal/device/verbs"
)

// Entry is a line that the worker program prints: a part of the snapshot, or the beginning of a call for one.
type Entry struct {
	Part   string          `json:"part"`              // as in "attributes", "gids"
	Port   int             `json:"port,omitempty"`    // 0: of the device
	Begun  bool            `json:"begun,omitempty"`   // the call has begun; the other fields follow in another Entry
	None   string          `json:"none,omitempty"`    // why there is nothing to read
	Error  string          `json:"error,omitempty"`   // why the part could not be read, or was not requested
	TookNS int64           `json:"took_ns,omitempty"` // absent if the call did not end
	Value  json.RawMessage `json:"value,omitempty"`
}

// attributesPart is the part that every device and port has. If it is unsupported, that is an
// error: the provider library of the device may be missing.
const attributesPart = "attributes"

// newEntry returns the entry of a call that has ended or exceeded its limit.
func newEntry(part string, port int, took time.Duration, value any, err error) Entry {
	e := Entry{Part: part, Port: port}
	if !errors.Is(err, ErrLate) {
		e.TookNS = max(took.Nanoseconds(), 1)
	}
	if errors.Is(err, verbs.ErrUnsupported) && part != attributesPart {
		e.None = err.Error()
		return e
	}
	if err == nil {
		e.Value, err = json.Marshal(value)
	}
	if err != nil {
		e.Error = err.Error()
	}
	return e
}

// partName returns the name of a part for texts.
func partName(part string, port int) string {
	if port == 0 {
		return part
	}
	return fmt.Sprintf("%s of port %d", part, port)
}
