package ledger

// Size is the size of a ledger in bytes. Only pages that were written to take memory: the rings of existing probes, and
// the ring of events after the first event.
const Size = 16004 << 10

// The numbers of slots and ring entries. The last event slot has the type Overflow: it
// counts all events whose type and port have no slot of their own.
const (
	EventSlots  = 2048               // 255 ports with eight types each, and the types of the device
	ProbeSlots  = 1536               // with vectors = [-1]: 2 ports, 256 completion vectors, 3 methods
	FabricSlots = 8                  // ports
	FabricPairs = 64                 // pairs of a port
	RunRing     = 4096               // runs of events that the host has not read
	RoundRing   = 128                // rounds of one probe that the host has not read
	CommandRing = 64                 // commands that the host has not read
	magic       = 0x52444d4145563034 // "RDMAEV04"
)

// portShift is the bit at which the port begins in threadState.call.
const portShift = 16

// Overflow is the event type of the slot for events that have no slot of their own.
const Overflow int32 = -1

// The layout. Every field is naturally aligned and there is no hidden padding.
type (
	page struct {
		magic  uint64
		events uint32 // event slots in use
		probes uint32 // probe slots in use
		reader threadState
		ctl    threadState
		evid   threadState
		// fabrics is the number of fabric slots in use.
		fabrics uint32
		_       uint32
		alive   int64 // CLOCK_MONOTONIC ns at which the worker's goroutines last ran
		_       [1024 - 16 - 3*16 - 16]byte
		event   [EventSlots]eventSlot
		probe   [ProbeSlots]probeSlot
		fabric  [FabricSlots]fabricSlot
		runs    runRing
		rounds  [ProbeSlots]roundRing // rounds[i] is the ring of the probe in probe[i]
		command commandRing           // written by Go alone
		_       [Size - 1024 - EventSlots*32 - ProbeSlots*128 - FabricSlots*(128+FabricPairs*64) -
			(64 + RunRing*64) - ProbeSlots*(64+RoundRing*80) - (64 + CommandRing*24)]byte
	}
	// threadState records the call that one thread is in. The lower half of call is the
	// Call, 0 for no call; the upper half is the port that the call is about. thread is the
	// TID of the thread, where the host has to know it. since is the time of the last
	// change, in ns of CLOCK_MONOTONIC.
	threadState struct {
		call   uint32
		thread uint32
		since  int64
	}
	eventSlot struct {
		typ, port   int32
		read, acked uint64
		unlisted    uint64 // events of runs for which the ring had no space
	}
	probeSlot struct {
		port, vector, method uint32
		_                    uint32
		thread               threadState
		counts               ProbeCounts
		_                    [128 - 32 - numCounts*8]byte
	}
	fabricSlot struct {
		port   uint32
		_      uint32
		thread threadState
		ctl    threadState // of the thread that creates and destroys queues
		counts FabricCounts
		_      [128 - 40 - numFabricCounts*8]byte
		pair   [FabricPairs]fabricPairSlot
	}
	fabricPairSlot struct {
		session uint64
		counts  FabricPairCounts
		_       [64 - 8 - numPairCounts*8]byte
	}
)

// Call identifies a call into the verbs library or the kernel.
type Call uint32

// The calls. The native backend's table has the same order.
const (
	CallNone Call = iota
	CallGetDeviceList
	CallOpenDevice
	CallQueryDevice
	CallQueryPort
	CallQueryGID
	CallQueryPKey
	CallAllocPD
	CallCreateCompChannel
	CallCreateCQ
	CallCreateQP
	CallCreateAH
	CallRegMR
	CallModifyQP
	CallPostSend
	CallPostRecv
	CallReqNotifyCQ
	CallPollCQ
	CallGetCQEvent
	CallAckCQEvents
	CallGetAsyncEvent
	CallAckAsyncEvent
	CallDestroyQP
	CallDestroyCQ
	CallDestroyCompChannel
	CallDestroyAH
	CallDeregMR
	CallDeallocPD
	CallCloseDevice
	CallLoadLibrary
	CallReadSysfs // no library call, but it can also hang in the driver
	CallQueryQP
	CallEthtool // netlink and ioctl, under the kernel's RTNL lock
	calls
)

var callNames = [calls]string{
	"", "ibv_get_device_list", "ibv_open_device", "ibv_query_device", "ibv_query_port",
	"ibv_query_gid", "ibv_query_pkey", "ibv_alloc_pd", "ibv_create_comp_channel",
	"ibv_create_cq", "ibv_create_qp", "ibv_create_ah", "ibv_reg_mr", "ibv_modify_qp",
	"ibv_post_send", "ibv_post_recv", "ibv_req_notify_cq", "ibv_poll_cq",
	"ibv_get_cq_event", "ibv_ack_cq_events", "ibv_get_async_event", "ibv_ack_async_event",
	"ibv_destroy_qp", "ibv_destroy_cq", "ibv_destroy_comp_channel", "ibv_destroy_ah",
	"ibv_dereg_mr", "ibv_dealloc_pd", "ibv_close_device", "dlopen libibverbs",
	"read sysfs", "ibv_query_qp", "ethtool",
}

// String returns the name of the function; "" for CallNone.
func (c Call) String() string {
	if c >= calls {
		return "an unknown call"
	}
	return callNames[c]
}
