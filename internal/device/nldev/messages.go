package nldev

// The messages and attributes of include/uapi/rdma/rdma_netlink.h that this
// package uses.
const (
	nldev = 5 << 10 // RDMA_NL_NLDEV, above the number of a message

	get       = nldev | 1  // RDMA_NLDEV_CMD_GET
	portGet   = nldev | 5  // RDMA_NLDEV_CMD_PORT_GET
	resGet    = nldev | 9  // RDMA_NLDEV_CMD_RES_GET
	resQPGet  = nldev | 10 // RDMA_NLDEV_CMD_RES_QP_GET, and likewise
	resCQGet  = nldev | 12
	resPDGet  = nldev | 14
	statGet   = nldev | 17 // RDMA_NLDEV_CMD_STAT_GET
	resCtxGet = nldev | 22
	resSRQGet = nldev | 23

	attrDevIndex     = 1
	attrDevName      = 2
	attrPortIndex    = 3
	attrSummary      = 15
	attrNetDevName   = 51
	attrSummaryEntry = 16
	attrSummaryName  = 17
	attrSummaryCount = 18
	attrQP           = 19 // RDMA_NLDEV_ATTR_RES_QP, a table, and below it its ENTRY
	attrQPEntry      = 20
	attrLQPN         = 21
	attrType         = 26
	attrState        = 27
	attrPID          = 28
	attrKernName     = 29
	attrCQ           = 35
	attrCQEntry      = 36
	attrUseCount     = 38
	attrPD           = 46
	attrPDEntry      = 47
	attrPDN          = 60
	attrCQN          = 61
	attrCtxN         = 64
	attrCounters     = 80 // RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, and below it an ENTRY, its NAME and VALUE
	attrCounter      = 81
	attrCounterName  = 82
	attrCounterValue = 83
	attrCtx          = 86
	attrCtxEntry     = 87
	attrSRQ          = 88
	attrSRQEntry     = 89
	attrSRQN         = 90
)
