package verdict

// Reason tells why the two ports of a pair are not connected.
type Reason string

// The reasons. The function Reasons returns their meanings.
const (
	ReasonNone        Reason = "" // the pair is connected
	ReasonStarting    Reason = "starting"
	ReasonNoResponder Reason = "no_responder"
	ReasonKey         Reason = "key"
	ReasonNotListed   Reason = "not_listed"
	ReasonFull        Reason = "full"
	ReasonVersion     Reason = "version"
	ReasonNoCommonGID Reason = "no_common_gid"
	ReasonPKey        Reason = "pkey"
	ReasonUnsupported Reason = "unsupported"
	ReasonNotActive   Reason = "not_active"
	ReasonOwnPort     Reason = "own_port"
	ReasonFailed      Reason = "failed"
)
