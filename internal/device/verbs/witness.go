package verbs

// Witness is the source by which a transition of a port's state was found. It is a tag of rdma_port_change.
type Witness string

// The witnesses.
const (
	WitnessEvent  Witness = "event"  // an asynchronous event, or the removal of the device
	WitnessQuery  Witness = "query"  // two queries that agree with each other and not with the events
	WitnessReopen Witness = "reopen" // the first query of a worker that replaced another
)
