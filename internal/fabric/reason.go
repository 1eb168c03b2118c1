package fabric

// Reason is why a pair has not met.
type Reason string

// The reasons.
const (
	ReasonNone        Reason = ""              // it has met
	ReasonStarting    Reason = "starting"      // it has not been tried yet
	ReasonNoResponder Reason = "no_responder"  // no process answers there
	ReasonKey         Reason = "key"           // it has another key, or a certificate of another authority
	ReasonNotListed   Reason = "not_listed"    // the list there does not have this host
	ReasonFull        Reason = "full"          // its port has as many pairs as it takes
	ReasonVersion     Reason = "version"       // its version cannot talk to this one
	ReasonNoCommonGID Reason = "no_common_gid" // no address of the port fits one of the peer's
	ReasonPKey        Reason = "pkey"          // the P_Keys differ
	ReasonUnsupported Reason = "unsupported"   // it has no device that fits, or another link layer
	ReasonNotActive   Reason = "not_active"    // the port there is not active
	ReasonOwnPort     Reason = "own_port"      // the own port has no queues: it is not active, or no worker runs
	ReasonFailed      Reason = "failed"        // a device refused a verb, or the host refuses for a reason that is not known here
)
