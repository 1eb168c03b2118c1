package fabric

// Text returns the reason in words, as they follow "not met:". One that this version does not know is its own text.
func (r Reason) Text() string {
	switch r {
	case ReasonNone:
		return "they have met"
	case ReasonStarting:
		return "it has not been tried yet"
	case ReasonNoResponder:
		return "no process answers there"
	case ReasonKey:
		return "it has another key, or another host has its address"
	case ReasonNotListed:
		return "its list does not have this host"
	case ReasonFull:
		return "its port has as many pairs as it takes"
	case ReasonVersion:
		return "its version cannot talk to this one"
	case ReasonNoCommonGID:
		return "no GID of the port fits one of the peer's"
	case ReasonPKey:
		return "the P_Keys differ, or neither is of a full member"
	case ReasonUnsupported:
		return "it has no device that fits, or another link layer"
	case ReasonNotActive:
		return "its port is not active"
	case ReasonOwnPort:
		return "the own port is not active, or its worker does not run"
	case ReasonFailed:
		return "a device refuses to connect or to send, or the host refuses"
	}
	return string(r)
}

// Fix returns what to do about it, "" where time or an alert of its own does: about a port that is not active.
func (r Reason) Fix() string {
	switch r {
	case ReasonNoResponder:
		return "run the plugin there with fabric.peers_file, and let its TCP port through"
	case ReasonKey:
		return "give both hosts the same fabric.key_file, or certificates of one authority, and look at its address in the list"
	case ReasonNotListed:
		return "give all hosts the same fabric.peers_file"
	case ReasonFull:
		return "lower fabric.peers, on all hosts alike"
	case ReasonVersion:
		return "install the same version on both hosts"
	case ReasonNoCommonGID:
		return "compare the addresses of both ports, which have to be of one family; whoever runs the network assigns them"
	case ReasonPKey:
		return "put both ports into one partition, one of them as a full member"
	case ReasonUnsupported:
		return "limit fabric.devices to those that all hosts have"
	case ReasonFailed:
		return "look for the call in the log, at level debug"
	case ReasonNone, ReasonStarting, ReasonNotActive, ReasonOwnPort:
	}
	return ""
}
