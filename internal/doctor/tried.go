package doctor

import (
	"time"

	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
)

// TryLimit is for a trial as a whole. An emulated machine takes 2 s.
const TryLimit = 10 * time.Second

// Trial is what trying one probe method on one device came to.
type Trial struct {
	Opened bool
	Attr   verbs.DeviceAttr // valid if Opened
	Why    string           // why the device was not opened or not kept; one line
	Reason status.Reason    // the same in a word
	Ports  map[int]PortTrial
}

// PortTrial is a Trial's part of one port.
type PortTrial struct {
	Refused string // why there is no probe; "" when there is
	Rounds  []verbs.Round
}
