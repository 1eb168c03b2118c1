package status

// Reason is why a device is not watched. The measurement rdma_device has it in the field reason.
type Reason string

// The reasons.
const (
	ReasonOK            Reason = "ok"
	ReasonNoLibrary     Reason = "no_library"
	ReasonNoProgram     Reason = "no_program"
	ReasonNoPermission  Reason = "no_permission"
	ReasonNoDevice      Reason = "no_device"
	ReasonUnsupported   Reason = "unsupported"
	ReasonNodeMissing   Reason = "node_missing" // the host's /dev/infiniband lacks the file of its node
	ReasonCrashed       Reason = "crashed"
	ReasonStuck         Reason = "stuck"
	ReasonRemoved       Reason = "removed"
	ReasonRenamed       Reason = "renamed"
	ReasonExcludedNetns Reason = "excluded_netns"
	ReasonLimit         Reason = "limit"
	ReasonRecovering    Reason = "recovering"
	ReasonStarting      Reason = "starting"
	ReasonReassigned    Reason = "reassigned"
	ReasonDeleted       Reason = "deleted"     // it was a soft device, which administrators make and delete
	ReasonReleased      Reason = "released"    // by `rdma-events release`
	ReasonUnwatchable   Reason = "unwatchable" // no program here can open it, and nothing is wrong with that
	ReasonOtherNetns    Reason = "other_netns" // it belongs to another network namespace, which has borrowed it
)

// End is why a supervised program has ended.
type End struct {
	Reason  Reason
	Message string // one line: what is wrong and what to do
}
