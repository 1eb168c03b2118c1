package doctor

import (
	"time"

	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
)

// TryLimit is the longest time for a whole trial. An emulated machine takes 2 s.
const TryLimit = 10 * time.Second

// Trial is the result of one probe method on one device.
type Trial struct {
	Opened bool
	Attr   verbs.DeviceAttr // valid if Opened
	Why    string           // why the device was not opened or not kept open; one line
	Reason status.Reason    // the same as one word
	Ports  map[int]PortTrial
}

// PortTrial is the part of a Trial for one port.
type PortTrial struct {
	Refused string // why there is no probe; "" if there is one
	// Query is the errno's name with which the query of the port failed; "" if it was answered, or is no command.
	Query  string
	Rounds []verbs.Round
}
