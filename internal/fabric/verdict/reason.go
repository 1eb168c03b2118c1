package verdict

// Reason is why a pair has not met.
type Reason string

// The reasons. Reasons says what each means.
const (
	ReasonNone        Reason = "" // it has met
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
