package status

// Reason tells why a device is not watched. It is the field reason of the measurement rdma_device.
type Reason string

// Reasons.
const (
	ReasonOK            Reason = "ok"
	ReasonNoLibrary     Reason = "no_library"
	ReasonNoProgram     Reason = "no_program"
	ReasonNoPermission  Reason = "no_permission"
	ReasonNoDevice      Reason = "no_device"
	ReasonUnsupported   Reason = "unsupported"
	ReasonNodeMissing   Reason = "node_missing" // /dev/infiniband of the host has no device node for it
	ReasonCrashed       Reason = "crashed"
	ReasonStuck         Reason = "stuck"
	ReasonRemoved       Reason = "removed"
	ReasonRenamed       Reason = "renamed"
	ReasonExcludedNetns Reason = "excluded_netns"
	ReasonLimit         Reason = "limit"
	ReasonRecovering    Reason = "recovering"
	ReasonStarting      Reason = "starting"
	ReasonReassigned    Reason = "reassigned"
	ReasonDeleted       Reason = "deleted"     // it was a soft device, which administrators create and delete
	ReasonReleased      Reason = "released"    // by `rdma-events release`
	ReasonUnwatchable   Reason = "unwatchable" // no program here can open it, which is not a fault
	ReasonOtherNetns    Reason = "other_netns" // it was moved to another network namespace
)

// End tells why a supervised program has ended.
type End struct {
	Reason  Reason
	Message string // one line: what is wrong, and what to do
}
